"""Compare twins: two runs that differ only in their data, which is disjoint, step by step (P2 §3.1, §4.4)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from twoclocks.analysis.agreement import agreement_of, cosines, hellinger, identical
from twoclocks.analysis.twins_info import TwinsInfo, shared_times
from twoclocks.analysis.whitening import Whitening, whitening_of
from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.config import machine_settings
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.rows import is_member
from twoclocks.data.sets import draw_unique
from twoclocks.dissection.cache import Cache, code_of_package, imported_code
from twoclocks.dissection.execution import Report
from twoclocks.dissection.subject import CheckpointError, RunSubject, Subject, finite, usable
from twoclocks.dissection.view import Arrays
from twoclocks.evaluation.image_neighbours import RatioCopies
from twoclocks.rules.images import Images
from twoclocks.runs.execution import named_memory_errors, threads_restored
from twoclocks.runs.fork import differences
from twoclocks.runs.load import Run
from twoclocks.runs.settings import RunSettings
from twoclocks.store.checksums import DamagedError
from twoclocks.store.folders import DERIVED

TILE = 1024  # samples that are compared with a training set at a time
ROWS = 1024  # strings on which outputs are compared (P2 §4.4)
MOST_ROWS = 10**7  # of test strings
# What may differ between twins: data, initial weights, how fast they were computed, and what was evaluated beside.
DATA = {"data.part", "data.seed"}
VARIES_BETWEEN_TWINS = DATA | machine_settings(RunSettings) | {"training.seed", "training.average"}
NAMED = 4  # differences that an error lists


class TwinsError(UserError):
    """Two runs cannot be compared as twins; the message names what differs, or what is shared."""


def compare_twins(
    a: Run,
    b: Run,
    device: str | None = None,
    rows: int = ROWS,
    report: Report = lambda done, total, words: None,
    only_remembered: bool = False,
    how: ClockSettings | None = None,
) -> TwinsInfo:
    """Compare two run directories whose settings differ in data.part or data.seed: when do the models differ?

    Samples are those that both runs stored at every evaluation, decoded to symbols; probabilities of tokens come from
    stored weights, on ``rows`` valid strings of neither training set. Measurements of weights are cached in one of the
    runs; with ``only_remembered`` they are read from there and no weights are loaded. ``how``: settings by which both
    clocks are read, and when the models part; by default the runs' own.
    """
    check_twins(a.settings, b.settings)
    place = device if device is not None else usable(a.settings.training.device)
    first, second = RunSubject(a, place), RunSubject(b, place)
    for subject, run in ((first, a), (second, b)):
        if how is not None and run.is_evaluated:
            subject.clocks = how.read(run.series(), run.copy_chance)
    keeper = min((a, b), key=lambda run: run.settings.digest())  # the same, whichever is named first
    with threads_restored(), named_memory_errors():
        cache, labels = Cache(keeper.path / DERIVED), (a.label, b.label)
        return compare_subjects(first, second, rows, cache, report, only_remembered, labels, how)


def compare_subjects(
    a: Subject,
    b: Subject,
    rows: int = ROWS,
    cache: Cache | None = None,
    report: Report = lambda done, total, words: None,
    only_remembered: bool = False,
    labels: tuple[str, str] = ("the first", "the second"),
    how: ClockSettings | None = None,
) -> TwinsInfo:
    """Compare any two subjects, such as oracles in place of models."""
    check_twins(a.settings, b.settings)
    if not 2 <= rows <= MOST_ROWS:
        raise SettingError("rows", rows, f"use at least 2 strings and at most {MOST_ROWS:,}")
    notes: list[str] = []
    how = how if how is not None else a.settings.clocks
    samples, clocks, settings = sample_measurements(a, b, notes), (a.clocks, b.clocks), a.settings
    steps = np.array(list(samples), dtype=np.int64)
    found = {name: np.stack([one[name] for one in samples.values()]) for name in next(iter(samples.values()))}
    near = found["distance"]  # (steps, model, set, rows)
    shared = shared_times(clocks)
    outputs, strings = None, 0
    measured = output_measurements(a, b, rows, cache or Cache(None), report, only_remembered, notes)
    if measured:
        distance, chance = (np.stack([one[name] for one in measured.values()]) for name in ("distance", "chance"))
        strings, at = distance.shape[1], np.array(list(measured), dtype=np.int64)
        outputs = agreement_of(at, distance, chance.mean(axis=1), shared, how)
    return TwinsInfo(
        steps=steps,
        labels=labels,
        n=settings.data.n,
        same_start=a.settings.training.seed == b.settings.training.seed,
        images=a.encoding.kind == "image",
        clocks=clocks,
        samples=agreement_of(steps, found["apart"], found["chance"][:, 0], shared, how),
        same=found["same"].mean(axis=1),
        same_chance=found["chance"][:, 1],
        rows=near.shape[3],
        copies=found["copied"].mean(axis=3),
        distance=near.mean(axis=3),
        distance_error=near.std(axis=3, ddof=1) / math.sqrt(near.shape[3]),
        chance=a.evaluator.reference.copy_chance,
        outputs=outputs,
        cosine=found["cosine"].mean(axis=3) if "cosine" in found else None,
        strings=strings,
        confidence=how.confidence,
        notes=tuple(notes),
    )


def check_twins(a: RunSettings, b: RunSettings) -> None:
    """Raise TwinsError unless both differ in their data alone, and share none of it."""
    changed = differences(a, b)
    if wrong := {key: both for key, both in changed.items() if key not in VARIES_BETWEEN_TWINS}:
        listed = [f"{key} is {one} in one and {other} in the other" for key, (one, other) in wrong.items()]
        more = f", and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
        fix = "train both with the same settings except data.part"
        raise TwinsError(f"runs: they are no twins: {', '.join(listed[:NAMED])}{more}; {fix}")
    if not DATA & changed.keys():
        fix = "train the second with another one, such as --data.part 1"
        raise TwinsError(f"data.part: both runs have the same training set, part {a.data.part}; {fix}")
    first, second = (one.data.training_set(one.rule) for one in (a, b))
    if shared := int(is_member(first, second, a.rule.symbols).sum()):
        sets = ", ".join(f"{key} {one} and {other}" for key, (one, other) in changed.items() if key in DATA)
        fix = "use the same data.seed with data.part 0 and 1, whose sets are disjoint"
        raise TwinsError(f"data: the training sets share {shared} of {len(first)} samples ({sets}); {fix}")


def twin_pairs(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """All pairs of twins with the same training.seed among some runs; crossed seeds would give too many pairs."""
    found = []
    for a, b in combinations(runs, 2):
        if a.settings.training.seed != b.settings.training.seed:
            continue
        try:
            check_twins(a.settings, b.settings)
        except TwinsError:
            continue
        found.append((a, b))
    return found


def sample_measurements(a: Subject, b: Subject, notes: list[str]) -> dict[int, Arrays]:
    """Compare the samples at every step for which both runs stored some."""
    found = {}
    for step in sorted(set(a.steps("samples")) & set(b.steps("samples"))):
        try:
            found[step] = sample_measurement(a, b, step)
        except (CheckpointError, DamagedError) as error:
            notes.append(f"samples: {error}; this step is left out")
    if not found:
        why = notes[0] if notes else "they have no evaluation in common"
        raise TwinsError(f"runs: there are no samples to compare ({why}); use evaluation.keep_samples of at least 2")
    return found


def sample_measurement(a: Subject, b: Subject, step: int) -> Arrays:
    """Distances of samples from the same noise to each other and to both training sets."""
    first, second = (subject.judged(step)[0].symbols for subject in (a, b))
    if len(first) < 2:
        raise CheckpointError(f"step {step:,}: a single sample was stored; at least 2 are needed")
    as_vectors = vectors_of(a)
    cosine, chance = cosines(as_vectors(first), as_vectors(second))
    same, same_chance = identical(first, second, a.rule.symbols)
    found = {"apart": (1 - cosine).cpu().numpy(), "same": same, "chance": np.array([1 - chance, same_chance])}
    # By model, then by training set.
    near = [[nearness(subject, rows, as_vectors) for subject in (a, b)] for rows in (first, second)]
    for name in near[0][0]:
        found[name] = torch.stack([torch.stack([one[name] for one in row]) for row in near]).cpu().numpy()
    return found


def nearness(subject: Subject, rows: Tensor, as_vectors: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Distances of samples to the nearest training sample, which of them are copies, and the cosine to real images."""
    if not subject.rule.is_image:
        distance = subject.evaluator.neighbours.distance(rows)
        return {"distance": distance, "copied": distance == 0}
    copies = subject.evaluator.copies
    assert isinstance(copies, RatioCopies)
    nearest = copies.neighbours.two_nearest(rows)
    samples, images = (normalize(as_vectors(some.to(rows.device)), dim=1) for some in (rows, subject.train))
    cosine = torch.cat([(part @ images.T).amax(dim=1) for part in samples.split(TILE)])
    return {"distance": nearest.distance[:, 0], "copied": copies.among(nearest), "cosine": cosine}


def vectors_of(subject: Subject) -> Callable[[Tensor], Tensor]:
    """Symbols as vectors whose cosine is that of (whitened) images, or for tokens the fraction that is equal."""
    if isinstance(subject.rule, Images):
        return known_whitening(subject.rule, str(subject.device))
    if subject.encoding.kind == "image":
        return subject.encode
    return lambda symbols: torch.nn.functional.one_hot(symbols.flatten(1), subject.rule.symbols)


@lru_cache(maxsize=2)
def known_whitening(rule: Images, device: str) -> Whitening:
    """The same for all steps of a comparison: its eigenvectors take seconds for images of 32×32."""
    return whitening_of(rule, device)


def output_measurements(
    a: Subject, b: Subject, rows: int, cache: Cache, report: Report, only_remembered: bool, notes: list[str]
) -> dict[int, Arrays]:
    """Compare the predicted probabilities at every step for which both stored weights; empty without predictions."""
    if not a.objective.offers("predictions"):
        return {}
    steps = sorted(set(a.steps("weights")) & set(b.steps("weights")))
    keys = {step: key_of(a, b, step, rows) for step in steps}
    found = {step: known for step, key in keys.items() if (known := cache.get(key)) is not None}
    missing = [] if only_remembered else [step for step in steps if step not in found]
    test = unseen(a, b, rows) if missing else None
    if missing and test is None:
        notes.append("outputs: no valid string lies outside both training sets; use fewer training samples")
        return {}
    for done, step in enumerate(missing):
        report(done, len(missing), f"outputs at step {step:,}")
        try:
            assert test is not None
            found[step] = output_measurement(a, b, step, test)
            cache.put(keys[step], found[step])
        except (CheckpointError, DamagedError) as error:
            notes.append(f"outputs: {error}; this step is left out")
    report(len(missing), len(missing), "")
    return dict(sorted(found.items()))


def unseen(a: Subject, b: Subject, rows: int) -> tuple[Tensor, ...] | None:
    """Valid strings of neither training set, encoded, and a corruption as the loss draws it; None: there are none.

    All is drawn from the evaluation's seed, which twins share, so that the comparison is symmetric.
    """
    room = a.rule.support() - len(a.train) - len(b.train)
    if room < 2:
        return None
    both = torch.cat([a.train, b.train])
    strings = draw_unique(a.rule, min(rows, room), a.settings.evaluation.seed, "test strings of twins", exclude=both)
    clean = a.encoding.encode(a.rule, strings)
    drawn = a.objective.draw(clean, a.stream("twins"))
    return tuple(part.to(a.device) for part in (clean, *drawn))


def output_measurement(a: Subject, b: Subject, step: int, test: tuple[Tensor, ...]) -> Arrays:
    """Hellinger distance per string, averaged over its tokens, and the chance level from different strings."""
    p, q = (probabilities(subject, step, test) for subject in (a, b))
    unrelated = (hellinger(p, q.roll(1, 0)) + hellinger(q, p.roll(1, 0))) / 2
    found = {"distance": hellinger(p, q), "chance": unrelated}  # (strings, tokens)
    return {name: values.double().mean(dim=1).cpu().numpy() for name, values in found.items()}


def probabilities(subject: Subject, step: int, test: tuple[Tensor, ...]) -> Tensor:
    """The predicted probabilities of every token (strings, length, symbols)."""
    objective, network = subject.objective, subject.network(step)

    def predict(*parts: Tensor) -> Tensor:
        found = objective.predictions(network, *parts)
        assert found is not None  # output_measurements asks the objective first
        return found

    return finite(subject.in_chunks(predict, *test), step)


def key_of(a: Subject, b: Subject, step: int, rows: int) -> str | None:
    """Cache key of a comparison of outputs, the same for both orders of the twins; None: not known."""
    origins = [subject.origin("weights", step) for subject in (a, b)]
    if None in origins:
        return None
    twins = sorted(zip([one.settings.digest() for one in (a, b)], origins, [a.precision, b.precision], strict=True))
    code = code_of_package(), imported_code(a)  # the parts of both are the same
    document: dict[str, Any] = {"twins": twins, "rows": rows, "code": code}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
