"""Measure the views of one run: every checkpoint is loaded once, measured by each view, and cached."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.config import build, to_mapping
from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.dissection.cache import Cache, key_of
from twoclocks.dissection.subject import CheckpointError, RunSubject, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Info, Probe, View, ViewError
from twoclocks.runs.execution import named_memory_errors, threads_restored
from twoclocks.runs.load import Run
from twoclocks.store import files
from twoclocks.store.checksums import DamagedError, decode_document, encode_document
from twoclocks.store.files import DiskError
from twoclocks.store.folders import DERIVED

CHOSEN = "views.json"  # the settings of the views that were measured
Report = Callable[[int, int, str], None]  # measurements done, measurements in total, what is next


@dataclass(frozen=True)
class Dissection:
    """The results of the views, and why some have none."""

    infos: dict[str, Info]
    refused: dict[str, str]  # view: reason
    measured: int = 0  # measurements taken now
    known: int = 0  # measurements found in the cache
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All numbers and sentences, as plain values."""
        views = {name: {"steps": info.steps.tolist(), **info.numbers()} for name, info in self.infos.items()}
        sentences = {name: info.sentences() for name, info in self.infos.items()}
        return {"views": views, "sentences": sentences, "refused": self.refused}


def choose_views(names: Sequence[str] | None = None, settings: Mapping[str, Any] | None = None) -> dict[str, View]:
    """Views by name, by default all, each with its settings: ``{"field": {"grid": 21}}``."""
    settings = settings or {}
    chosen = list(dict.fromkeys(names)) if names is not None else VIEWS.names()
    for name in chosen:
        if name not in VIEWS.names():
            raise UnknownNameError("view", name, VIEWS.names())
    for name, section in settings.items():
        if name not in chosen:
            raise UnknownNameError("view", name, chosen)
        if not isinstance(section, Mapping):
            raise SettingError(name, section, f"name one of its settings: --{name}.KEY VALUE")
    return {name: build(VIEWS.get(name), settings.get(name, {}), name) for name in chosen}


def dissect_run(
    run: Run,
    views: Mapping[str, View] | Sequence[str] | None = None,
    device: str | None = None,
    report: Report = lambda done, total, words: None,
    required: Collection[str] = (),
    precision: str | None = None,
) -> Dissection:
    """Dissect a run directory; measurements are stored in it and are not repeated.

    ``required``: names of views that must apply to this run; UserError where one does not. Others are left out.
    ``precision``: of the networks; by default that of training on a GPU, float32 elsewhere.
    """
    chosen = views if isinstance(views, Mapping) else choose_views(views)
    subject, cache = RunSubject(run, device, precision), Cache(run.path / DERIVED)
    needed = {name: view for name, view in chosen.items() if name in required}
    check_none_refused({name: why for name, view in needed.items() if (why := refusal_reason(view, subject))})
    with threads_restored(), named_memory_errors():
        found = dissect(subject, chosen, cache, report)
    check_none_refused({name: why for name, why in found.refused.items() if name in required})
    remember(run.path / DERIVED, chosen, subject.precision)
    if not subject.artifacts["weights"] and any(view.reads == "weights" for view in chosen.values()):
        held = f"so only its {len(subject.steps('weights'))} last checkpoints were measured"
        found.notes.append(f"{run.path}: stored no weights during training, {held}; use evaluation.keep_weights = 24")
    return found


def check_none_refused(refused: Mapping[str, str]) -> None:
    """Raise UserError for the first view that does not apply although it was asked for by name."""
    for name, why in refused.items():
        raise UserError(f"views: {name!r} does not apply to this run ({why}); leave it out")


def known_dissection(run: Run) -> Dissection | None:
    """The dissection of a run from stored measurements alone; None where the run was never dissected."""
    known = remembered(run.path / DERIVED)
    if not known:
        return None
    views = {}
    for name, section in known["views"].items():
        with suppress(UserError):  # from a package that is not installed now, or from an older version
            views[name] = build(VIEWS.get(name), section, name)
    subject = RunSubject(run, precision=known["precision"])
    return dissect(subject, views, Cache(run.path / DERIVED), only_remembered=True)


def remembered(folder: Path) -> dict[str, Any]:
    """The views that were measured, with their settings; empty where nothing is stored."""
    path = folder / CHOSEN
    try:
        found = decode_document(files.read(path)) if path.is_file() else {}
    except DamagedError:  # as if it were missing
        return {}
    return found if {"views", "precision"} <= found.keys() else {}


def remember(folder: Path, chosen: Mapping[str, View], precision: str) -> None:
    """Store which views were measured, together with earlier ones of the same precision."""
    before = remembered(folder)
    sections = before["views"] if before.get("precision") == precision else {}
    sections = sections | {name: to_mapping(view) for name, view in chosen.items()}
    with suppress(DiskError):  # the cache has logged the reason
        files.make_folder(folder)
        files.write_atomic(folder / CHOSEN, encode_document({"views": sections, "precision": precision}))


def dissect(
    subject: Subject,
    views: Mapping[str, View],
    cache: Cache | None = None,
    report: Report = lambda done, total, words: None,
    only_remembered: bool = False,
) -> Dissection:
    """Measure every view that applies to the subject; with ``only_remembered``, read the cache and measure nothing."""
    cache = cache if cache is not None else Cache(None)
    refused = {name: why for name, view in views.items() if (why := refusal_reason(view, subject)) is not None}
    work = {name: Work(view, subject, cache) for name, view in views.items() if name not in refused}
    notes: list[str] = []
    taken = 0 if only_remembered else take_measurements(work, refused, notes, report)
    infos = {}
    for name, one in work.items():
        if name not in refused and None in one.taken and len(one.steps) >= one.view.fewest:
            infos[name] = one.info()
        elif name not in refused and not only_remembered:
            refused[name] = "too few checkpoints could be measured"
    known = sum(len(one.taken) for one in work.values()) - taken
    return Dissection(infos, refused, taken, known, notes)


def take_measurements(work: Mapping[str, Work], refused: dict[str, str], notes: list[str], report: Report) -> int:
    """Take all measurements that are not cached, step by step, so that each checkpoint is loaded once; count them."""
    missing = {name: one.missing() for name, one in work.items()}
    everything = [(step, name) for name, steps in missing.items() for step in steps]
    everything.sort(key=lambda pair: -1 if pair[0] is None else pair[0])
    taken = 0
    for done, (step, name) in enumerate(everything):
        if name in refused:
            continue
        report(done, len(everything), name if step is None else f"{name} at step {step:,}")
        try:
            work[name].take(step)
            taken += 1
        except ViewError as error:
            refused[name] = str(error)
        except (CheckpointError, DamagedError) as error:
            notes.append(f"{name}: {error}; this checkpoint is left out")
    report(len(everything), len(everything), "")
    return taken


def refusal_reason(view: View, subject: Subject) -> str | None:
    """Why a view does not apply to a subject, or None."""
    if (why := view.refusal(subject.settings)) is not None:
        return why
    found = len(subject.steps(view.reads))
    if found >= view.fewest:
        return None
    setting = f"evaluation.keep_{view.reads}"
    return (
        f"it needs {view.reads} of at least {view.fewest} evaluations, there are {found}; train with {setting} above 0"
    )


class Work:
    """The measurements of one view of one subject."""

    def __init__(self, view: View, subject: Subject, cache: Cache) -> None:
        self.view, self.subject, self.cache = view, subject, cache
        self.wanted = subject.steps(view.reads)
        self.keys = {step: key_of(view, subject, step) for step in (None, *self.wanted)}
        known = {step: cache.get(key) for step, key in self.keys.items()}
        self.taken: dict[int | None, Arrays] = {step: found for step, found in known.items() if found is not None}
        self.probe: Probe | None = None

    @property
    def steps(self) -> list[int]:
        """The steps that were measured."""
        return [step for step in self.wanted if step in self.taken]

    def missing(self) -> list[int | None]:
        return [step for step in self.keys if step not in self.taken]

    def take(self, step: int | None) -> None:
        if self.probe is None:
            self.probe = self.view.prepare(self.subject)
        found = self.probe.constants() if step is None else self.probe.measure(step)
        self.taken[step] = {name: np.ascontiguousarray(values) for name, values in found.items()}
        self.cache.put(self.keys[step], self.taken[step])

    def info(self) -> Info:
        names = self.taken[self.steps[0]]
        measurements = {name: np.stack([self.taken[step][name] for step in self.steps]) for name in names}
        return self.view.info(self.subject, self.steps, self.taken[None], measurements)
