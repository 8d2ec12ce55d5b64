"""View ``positions``: next-token loss by position; memory splits late positions from the held-out loss (P1 §5.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from twoclocks.clocks.onset import Onset, gap_onset
from twoclocks.core.arrays import Floats
from twoclocks.core.config import setting
from twoclocks.core.errors import UserError
from twoclocks.data.sets import loss_splits
from twoclocks.dissection.subject import SPLITS, Reads, Subject, finite
from twoclocks.dissection.view import NO_ORACLE, VIEWS, Arrays, Info, Passes, Probe, View, when
from twoclocks.objectives.base import OBJECTIVES
from twoclocks.oracles.posterior import rule_posterior
from twoclocks.oracles.prefix import listed_token_loss, next_token_loss
from twoclocks.runs.settings import RunSettings

DETERMINED = 0.5  # a position counts as determined by the rule if its loss is below this fraction of ln(symbols)


@dataclass(frozen=True)
class PositionsInfo(Info):
    loss: Floats  # (steps, SPLITS, positions), nats
    error: Floats  # standard errors of the same
    uniform: float  # ln(symbols): the loss of a uniform prediction
    rule_floor: Floats  # (positions,): loss of a perfect model of the rule on unseen samples; NaN: not known
    memory_floor: Floats  # (positions,): loss of a perfect memory on training samples
    determined: npt.NDArray[np.intp]  # positions that the rule determines: the last of each group
    rule_onsets: tuple[Onset | None, ...]  # when each of those positions is half learned; None for the others
    memory_onsets: tuple[Onset, ...]  # when held-out and training loss split, at every position

    def of(self, split: str) -> Floats:
        return np.asarray(self.loss[:, SPLITS.index(split)])

    @property
    def gap(self) -> Floats:
        """Held-out minus training loss (steps, positions)."""
        return self.of("held_out") - self.of("train")

    def first_split(self) -> int | None:
        """The first position from which on more than half of the positions split in the end."""
        seen = np.array([one.seen for one in self.memory_onsets])
        if not seen.any():
            return None
        after = np.array([seen[k:].mean() for k in range(len(seen))])
        return int(np.flatnonzero((after > 0.5) & seen)[0]) if ((after > 0.5) & seen).any() else int(seen.argmax())

    def sentences(self) -> list[str]:
        exact = bool(np.isfinite(self.rule_floor).all())
        found = [] if exact else [f"{NO_ORACLE} The last positions of its pieces are marked instead."]
        known = [(k, one) for k, one in enumerate(self.rule_onsets) if one is not None]
        seen = [(k, one) for k, one in known if one.seen]
        if known:
            listed = f"{', '.join(str(k + 1) for k, _ in known[:12])}{', …' if len(known) > 12 else ''}"
            count = f"{len(known)} of {self.loss.shape[2]} positions"
            what = f"The rule determines {count}" if exact else f"{count} are marked"
            found.append(f"{what} ({listed}); {len(seen)} of them are half learned by the end.")
        if seen:
            first, last = (pick(seen, key=lambda pair: pair[1].upper) for pick in (min, max))
            apart = f"first position {first[0] + 1}, {when(first[1])}; last position {last[0] + 1}, {when(last[1])}"
            order = apart if first[1].upper < last[1].upper else f"together, {when(first[1])}"
            found.append(f"Their loss falls {order}.")
        split = [(k, one) for k, one in enumerate(self.memory_onsets) if one.seen]
        if split:
            first = min(split, key=lambda pair: pair[1].upper)
            found.append(
                f"Held-out and training loss split at {len(split)} positions, mostly from position "
                f"{(self.first_split() or 0) + 1} on; first at position {first[0] + 1}, {when(first[1])}."
            )
        else:
            found.append("Held-out and training loss do not split at any position.")
        return found

    def numbers(self) -> dict[str, Any]:
        def onsets(found: Sequence[Onset | None]) -> list[dict[str, Any] | None]:
            return [None if one is None else one.as_json() for one in found]

        return {
            "determined": (self.determined + 1).tolist(),
            "loss": {name: self.of(name).tolist() for name in SPLITS},
            "rule_onsets": onsets(self.rule_onsets),
            "memory_onsets": onsets(self.memory_onsets),
            "first_split": None if self.first_split() is None else int(self.first_split() or 0) + 1,
        }


@VIEWS.register("positions")
@dataclass(frozen=True, kw_only=True)
class Positions(View):
    """Cross-entropy by position and split over training."""

    reads: ClassVar[Reads] = "weights"
    interprets: ClassVar[tuple[str, ...]] = ("departure",)
    rows: int = setting(256, "rows of each split, at most as many as were trained on", at_least=2, at_most=10**6)
    departure: float = setting(
        0.05, "difference of held-out and training loss that counts as a split, in nats", above=0
    )

    def refusal(self, settings: RunSettings) -> str | None:
        if settings.objective.offers("token_losses"):
            return None
        name = OBJECTIVES.name_of(settings.objective)
        return f"objective {name} has no order of positions; this view needs a loss per token (autoregressive)"

    def passes(self, settings: RunSettings) -> Passes:
        return Passes(1, len(SPLITS) * min(self.rows, settings.data.n))

    def prepare(self, subject: Subject) -> Probe:
        return PositionsProbe(self, subject)

    def info(
        self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]
    ) -> PositionsInfo:
        at, clocks = np.array(steps, dtype=np.int64), subject.settings.clocks
        rows = measurements["loss"].astype(np.float64)  # (steps, splits, rows, positions)
        uniform, count = math.log(subject.rule.symbols), rows.shape[3]
        floor = constants["rule_floor"]
        determined = constants["determined"].astype(np.intp)
        train, unseen = (rows[:, SPLITS.index(name)] for name in ("train", "held_out"))

        def rises(values: Floats, threshold: float) -> Onset:
            """When the mean over rows of the values (steps, rows) rises above a threshold."""
            errors = values.std(axis=1, ddof=1) / math.sqrt(values.shape[1])
            return gap_onset(at, values.mean(axis=1), errors, threshold, clocks.sustain, clocks.confidence)

        falls: list[Onset | None] = [None] * count
        for k in determined:
            floor_here = floor[k] if np.isfinite(floor[k]) else 0.0
            falls[k] = rises(uniform - unseen[:, :, k], (uniform - floor_here) / 2)
        gaps = [rises((unseen - train)[:, :, k], self.departure) for k in range(count)]
        return PositionsInfo(
            steps=at,
            loss=rows.mean(axis=2),
            error=rows.std(axis=2, ddof=1) / math.sqrt(rows.shape[2]),
            uniform=uniform,
            rule_floor=floor,
            memory_floor=constants["memory_floor"],
            determined=determined,
            rule_onsets=tuple(falls),
            memory_onsets=tuple(gaps),
            clocks=subject.clocks,
        )


class PositionsProbe(Probe):
    def __init__(self, view: Positions, subject: Subject) -> None:
        self.subject = subject
        rows = min(view.rows, len(subject.train))  # a repeated row adds no information: its loss has no noise
        self.rows = loss_splits(subject.rule, subject.train, rows, subject.settings.data.seed)
        self.clean = torch.stack([subject.encode(self.rows[name]) for name in SPLITS])

    def constants(self) -> Arrays:
        rule, train = self.subject.rule, self.subject.train
        entries = train[0].numel()
        memory = listed_token_loss(train, self.rows["train"], rule.symbols).mean(dim=0)
        floor = torch.full((entries,), math.nan, dtype=torch.float64)
        with suppress(UserError):  # no exact oracle
            floor = next_token_loss(rule_posterior(rule), self.rows["held_out"], rule.symbols).mean(dim=0)
        known = bool(torch.isfinite(floor).all())
        given = (floor < DETERMINED * math.log(rule.symbols)).nonzero()[:, 0] if known else ends_of_pieces(self.subject)
        return {"rule_floor": floor.numpy(), "memory_floor": memory.numpy(), "determined": given.numpy()}

    def measure(self, step: int) -> Arrays:
        objective, network = self.subject.objective, self.subject.network(step)

        def token_losses(rows: torch.Tensor) -> torch.Tensor:
            losses = objective.token_losses(network, rows)
            assert losses is not None  # other objectives are refused
            return losses

        loss = self.subject.in_chunks(token_losses, self.clean.flatten(0, 1))
        return {"loss": finite(loss, step).reshape(self.clean.shape).float().cpu().numpy()}


def ends_of_pieces(subject: Subject) -> torch.Tensor:
    """The last position of each piece of the rule's first kind, for rules whose oracle is not known."""
    places = torch.arange(subject.train[0].numel()).reshape(1, *subject.rule.shape)
    pieces = next(iter(subject.rule.parts(places).values()))
    ends: torch.Tensor = pieces[0].amax(dim=1).unique()
    return ends
