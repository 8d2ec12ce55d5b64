"""A monitor for any training loop: from samples at each step to the phase of training and a stop decision."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from twoclocks.clocks.chance import Chance
from twoclocks.clocks.series import Look, Series
from twoclocks.clocks.settings import POLICIES, ClockSettings, Policy
from twoclocks.clocks.window import Clocks
from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.core.text import show
from twoclocks.monitor.checks import (
    check_enough,
    check_guesses,
    check_precision,
    unseen,
    warn_of_few_held_out,
    warn_of_one_row,
    warn_of_scale,
)
from twoclocks.monitor.criteria import Criterion, Exact, Matches, criterion_of
from twoclocks.monitor.decision import Copies, Decision, Judgement
from twoclocks.monitor.gallery import Gallery
from twoclocks.monitor.inputs import as_array, as_path, called, device_of, gap_of
from twoclocks.monitor.record import Record, latest_chance
from twoclocks.monitor.run_lengths import RunLengths, run_lengths_of
from twoclocks.monitor.state import MonitorState, read_state, write_state
from twoclocks.monitor.symmetries import Symmetry, symmetry_name
from twoclocks.monitor.training_set import TrainingSet

EARLY = 3  # looks after which the scale of samples is no longer checked
Validity = Callable[[Any], Any]  # samples -> one true or false value each

log = logging.getLogger("twoclocks")


class Monitor:
    """Counts copies of the training set among samples; also valid samples, and the gap of losses, where they are known.

    ``train`` and ``samples`` are arrays (n, *shape) of integers or of floats, or lists of texts. ``copies`` defines a
    copy: "auto" (integers: exact; floats: a ratio of distances; texts: 50 words in a row), another name of
    ``tc.monitor.CRITERIA``, or a criterion of ``tc.monitor``. ``held_out``: real samples that were not trained on; they
    set the threshold of the ratio, and their copy rate is the chance level, which a rule gives without them.
    ``valid``: a function that says which samples are valid, in place of a rule. ``symmetries``: forms in which a
    training row is still the same row (``tc.monitor.SYMMETRIES``, or functions). ``policy`` says when to stop
    (``POLICIES``); the default is that of the settings, or else "memory".

    >>> monitor = Monitor(train=[[0, 1, 1], [1, 0, 1]])
    >>> monitor.observe(100, [[0, 1, 1], [1, 1, 1]]).copy_rate
    0.5
    """

    def __init__(
        self,
        train: Any,
        rule: Any | None = None,
        settings: ClockSettings | None = None,
        *,
        copies: str | Criterion = "auto",
        held_out: Any | None = None,
        valid: Validity | None = None,
        symmetries: Sequence[str | Symmetry] = (),
        policy: Policy | None = None,
    ) -> None:
        self.rule = rule
        self.settings = settings if settings is not None else ClockSettings()
        if not isinstance(self.settings, ClockSettings):
            raise UserError(f"settings: {show(self.settings)} is not allowed; use tc.clocks.ClockSettings(…)")
        self.valid = validity_of(rule, valid)
        self.policy = self._policy(policy)
        self.train = TrainingSet(train, symmetries)
        if rule is not None and not (obeys := np.asarray(called(rule.is_valid, "train", train))).all():
            raise UserError(f"train: {int((~obeys).sum())} rows break the rule; remove them, or leave the rule out")
        kept = None if held_out is None else unseen(self.train, self.train.checked(held_out, "held_out"))
        self.criterion, kept = criterion_of(copies, self.train).calibrated(self.train, kept)
        self.criterion.check_kind(self.train)
        if self.criterion.measures_chance:  # it is known at each look only, so the threshold cannot be absolute
            self.settings = replace(self.settings, above_chance=True)
        self._match = self.criterion.matcher(self.train)
        self.chance = self._chance(kept)
        self.settings.memory_levels(self.chance)  # an impossible threshold is an error now, not during training
        if kept is not None and self.chance is not None:
            warn_of_scale(self.train, kept, "held_out")
            warn_of_few_held_out(self.settings.memory_levels(self.chance), self.chance)
        self._record = Record(with_validity=self.valid is not None)
        self._gallery = Gallery()
        self._scale_is_checked = self._one_row_is_warned = False

    def _policy(self, given: Policy | None) -> Policy:
        """The policy that was given, or that of the settings, or "memory"; checked."""
        chosen = given if given is not None else self.settings.stop if self.settings.stop != "never" else "memory"
        if not isinstance(chosen, str) or chosen not in get_args(Policy):
            raise UnknownNameError("policy", chosen if isinstance(chosen, str) else show(chosen), POLICIES)
        if chosen == "rule" and self.valid is None:
            raise SettingError("policy", chosen, "it needs a rule or valid=; give one, or use memory or caution")
        return chosen

    def _chance(self, held_out: Any | None) -> Chance | None:
        """Probability that a sample of the true distribution counts as a copy; None if not known, then 0 is used."""
        confidence = self.settings.claimed_confidence
        if self.criterion.measures_chance:
            return None  # each look has its own
        if held_out is not None:
            copied = int(self._match(held_out).copied.sum())
            return Chance.estimated(copied, len(held_out), confidence, f"{len(held_out)} held-out samples")
        exact = isinstance(self.criterion, Exact) and not self.train.symmetries
        if self.rule is not None and exact:
            return Chance.exact(float(self.rule.copy_chance(len(self.train))))
        if self.rule is not None:
            rows = self.train.checked(self.rule.sample(CHANCE_SAMPLES, seed=0), "rule")
            copied = int(self._match(rows).copied.sum())
            return Chance.estimated(copied, CHANCE_SAMPLES, confidence, f"{CHANCE_SAMPLES} samples of the rule")
        if not exact:
            name = self.criterion.name
            log.warning(f"copies: the chance level of copies ({name}) is not known; give held_out")
        return None

    @property
    def copy_chance(self) -> float | None:
        """Copy rate of a model that learned only the rule; None if not known."""
        return None if self._latest_chance is None else self._latest_chance.rate

    @property
    def _latest_chance(self) -> Chance | None:
        return latest_chance(self._record.looks, self.chance, self.settings.claimed_confidence)

    def observe(
        self,
        step: int,
        samples: Any | Callable[[], Any],
        train_loss: Any | None = None,
        held_out_loss: Any | None = None,
    ) -> Decision:
        """Count copies in the samples of one step, and decide; steps must increase.

        ``samples`` may be a function that returns them. Losses may be means, or one value per sample, from which
        their standard error is computed.
        """
        self._record.check_step(step)
        if (train_loss is None) != (held_out_loss is None):
            raise UserError("train_loss: the gap needs held_out_loss and train_loss; give both or none")
        gap, error = (None, None) if train_loss is None else gap_of(train_loss, held_out_loss)
        given = called(samples, "samples") if callable(samples) else samples
        rows = self.train.checked(given, "samples")
        check_precision(self.criterion, self.train, given)
        if not self._scale_is_checked:  # once: samples of an untrained model may have any scale
            self._scale_is_checked = warn_of_scale(self.train, rows, "samples") or len(self._record) >= EARLY
        matches = self._match(rows, device_of(given))
        copies = Copies.of(matches, self.train.original)
        if not self._one_row_is_warned:
            self._one_row_is_warned = warn_of_one_row(copies, matches.trials)
        valid, both = self._count_valid(given, matches)
        guessed, tried = (None, None) if matches.control is None else matches.control
        similarity = float(np.mean(1 - matches.distances)) if self.criterion.is_cosine else None
        self.record(Look(int(step), len(copies), matches.trials, valid, gap, error, both, guessed, tried, similarity))
        self._gallery = Gallery.of(int(step), rows, matches, self.train, self.criterion)
        return self._judgement.decide(self.series(), copies)

    def _count_valid(self, given: Any, matches: Matches) -> tuple[int | None, int | None]:
        """Number of valid samples, and of copies among them; None where validity is not known."""
        if self.valid is None:
            return None, None
        n = len(matches.copied)
        valid = as_array(called(self.valid, "valid", given), "valid")
        if valid.shape != (n,):
            raise UserError(f"valid: it returned the shape {valid.shape} for {n} samples; return one value each")
        if valid.dtype.kind not in "biuf" or not np.isin(valid, (0, 1)).all():
            wrong = next(value for value in valid.tolist() if value not in (0, 1) or valid.dtype.kind not in "biuf")
            raise UserError(f"valid: it returned {show(wrong)}; return true or false (or 1 or 0) for each sample")
        valid = valid.astype(np.bool_) & (True if matches.counted is None else matches.counted)
        return int(valid.sum()), int((valid & matches.copied).sum())

    def observe_counts(self, look: Look) -> Decision:
        """Record counts and decide, where the counts are already known."""
        self.record(look)
        return self.decision()

    def record(self, look: Look) -> None:
        """Record counts without deciding."""
        if not len(self._record):
            check_enough(look.trials, self.policy, self.settings, self.chance)
        check_guesses(look, self.settings)
        self._record.add(look)
        if len(self._record) == 1 and look.held_out_trials is not None and (chance := self._latest_chance) is not None:
            warn_of_few_held_out(self.settings.memory_levels(chance), chance)

    @property
    def last_step(self) -> int | None:
        """Step of the last observation; None before the first."""
        return self._record.last_step

    @property
    def _judgement(self) -> Judgement:
        return Judgement(self.policy, self.settings, self._latest_chance)

    def series(self) -> Series:
        """The counts of all looks."""
        return self._record.series(self.criterion.name)

    def clocks(self) -> Clocks:
        """The clocks so far."""
        self._check_observed("clocks")
        return self.settings.read(self.series(), self._latest_chance)

    def decision(self) -> Decision:
        """The current decision."""
        self._check_observed("decision")
        return self._judgement.decide(self.series())

    def _check_observed(self, what: str) -> None:
        if not len(self._record):
            raise UserError(f"{what}: nothing was observed yet; call observe first")

    def run_lengths(self, samples: Any, held_out: Any) -> RunLengths:
        """Lengths of the token runs that samples share with the training set, beside those of held-out texts."""
        checked = (self.train.checked(texts, name) for texts, name in ((samples, "samples"), (held_out, "held_out")))
        return run_lengths_of(self._match, *checked)

    def gallery(self, path: Path | str | None = None) -> Any:
        """A figure of the last observation's copies beside their originals; also written to ``path``, if given."""
        return self._gallery.draw(None if path is None else as_path(path))

    def report(self, path: Path | str) -> None:
        """Write one HTML page: verdict, curves, looks, and the gallery of the last observation."""
        from twoclocks.monitor.page import write_page

        self._check_observed("report")
        write_page(self._state(), as_path(path), self._gallery)

    def _state(self) -> MonitorState:
        return MonitorState(
            train=self.train.digest,
            settings=self.settings,
            policy=self.policy,
            copies=self.criterion.name,
            validity=None if self.valid is None else validity_name(self.rule, self.valid),
            chance=self.chance,
            rows=self.train.given,
            distinct=len(self.train),
            groups=int(self.train.groups.max()) + 1 if self.criterion.uses_groups else None,
            symmetries=tuple(map(symmetry_name, self.train.symmetries)),
            looks=tuple(self._record.looks),
        )

    def state(self) -> dict[str, Any]:
        """All counts so far as plain values, for ``load_state`` of a monitor with the same training set."""
        return self._state().as_json()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``; UserError if it has another training set, rule, criterion or thresholds."""
        there, here = MonitorState.from_json(state), self._state()
        here.check_same(there)
        fresh = Record(with_validity=self.valid is not None)
        try:
            for look in there.looks:
                fresh.add(look)
        except UserError as error:
            raise UserError(f"state: its looks are damaged ({error}); give what state() returned") from None
        self._record, self._gallery = fresh, Gallery()

    def save(self, path: Path | str) -> None:
        """Write the state as JSON, atomically."""
        write_state(self.state(), as_path(path))

    def load(self, path: Path | str) -> None:
        """Read what ``save`` wrote."""
        self.load_state(read_state(as_path(path)))


def validity_of(rule: Any | None, valid: Validity | None) -> Validity | None:
    """The function that says which samples are valid: of a rule, or your own; None where there is none."""
    if rule is not None and valid is not None:
        raise UserError("valid: there is a rule, which says what is valid; give rule or valid, not both")
    if rule is not None and not callable(getattr(rule, "is_valid", None)):
        raise UserError(f"rule: {show(rule)} is not a rule; make one with tc.rules.create, or use valid=")
    if valid is not None and not callable(valid):
        raise UserError(
            f"valid: {show(valid)} is not a function; give one that returns a true or false value per sample"
        )
    if rule is None or not getattr(rule, "has_rule", True):  # of natural data, nothing says which are valid
        return valid
    return rule.is_valid  # type: ignore[no-any-return]


def validity_name(rule: Any | None, valid: Validity) -> str:
    """Name by which a stored state knows the rule or the function again."""
    return type(rule).__qualname__ if rule is not None else getattr(valid, "__qualname__", type(valid).__qualname__)
