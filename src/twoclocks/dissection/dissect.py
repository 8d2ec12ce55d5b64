"""All views of one training: every moment is loaded once, looked at by each view, and remembered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.config import to_mapping
from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.dissection.cache import Cache, key_of
from twoclocks.dissection.subject import RunSubject, Subject
from twoclocks.dissection.view import VIEWS, Arrays, Bench, Info, View, ViewError
from twoclocks.experiment.load import Run
from twoclocks.experiment.run import named_memory_errors, threads_restored
from twoclocks.store import files
from twoclocks.store.files import DiskError
from twoclocks.store.run_directory import DERIVED
from twoclocks.store.seals import DamagedError, open_document, seal_document

CHOSEN = "views.json"  # the settings of the views that were asked for last
Tell = Callable[[int, int, str], None]  # looks done, looks to do, which one is next


@dataclass(frozen=True)
class Dissection:
    """What was seen, and why the rest was not."""

    infos: dict[str, Info]
    refused: dict[str, str]  # view: reason
    measured: int = 0  # looks taken now
    remembered: int = 0  # looks that were known already
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
    found = {}
    for name in chosen:
        try:
            found[name] = VIEWS.create(name, **settings.get(name, {}))
        except SettingError as error:
            raise error.inside(name) from None
    return found


def dissect_run(
    run: Run,
    views: Mapping[str, View] | Sequence[str] | None = None,
    device: str | None = None,
    tell: Tell = lambda done, total, words: None,
) -> Dissection:
    """Dissect a run directory; what was measured is kept in it, and not measured again."""
    chosen = views if isinstance(views, Mapping) else choose_views(views)
    subject, cache = RunSubject(run, device), Cache(run.path / DERIVED)
    with threads_restored(), named_memory_errors():
        found = dissect(subject, chosen, cache, tell)
    remember(run.path / DERIVED, chosen)
    kept, steps = run.directory.kept_steps("weights"), subject.steps("weights")
    if not kept and any(view.reads == "weights" for view in chosen.values()):
        held = f"only its {len(steps)} last checkpoints" if steps else "none"
        found.notes.append(
            f"{run.path}: kept no weights on its way, so {held} can be looked at; "
            "train with evaluation.keep_weights = 24 or more"
        )
    return found


def known_dissection(run: Run) -> Dissection | None:
    """What was seen when a run was dissected last, without measuring anything; None where it never was."""
    path = run.path / DERIVED / CHOSEN
    if not path.is_file():
        return None
    try:
        chosen = {
            name: VIEWS.create(name, **section) for name, section in open_document(files.read(path))["views"].items()
        }
    except (DamagedError, KeyError, UserError):  # it is of no more use than a missing one
        return None
    return dissect(RunSubject(run), chosen, Cache(run.path / DERIVED), only_remembered=True)


def remember(folder: Path, chosen: Mapping[str, View]) -> None:
    sections = {name: to_mapping(view) for name, view in chosen.items()}
    try:
        files.make_folder(folder)
        files.write_atomic(folder / CHOSEN, seal_document({"views": sections}))
    except DiskError:
        pass  # the cache has said so


def dissect(
    subject: Subject,
    views: Mapping[str, View],
    cache: Cache | None = None,
    tell: Tell = lambda done, total, words: None,
    only_remembered: bool = False,
) -> Dissection:
    """Every view that makes sense for the subject; with ``only_remembered`` those whose looks are all known."""
    cache = cache if cache is not None else Cache(None)
    refused = {name: why for name, view in views.items() if (why := reason(view, subject)) is not None}
    work = {name: Work(view, subject, cache) for name, view in views.items() if name not in refused}
    missing = {name: one.missing() for name, one in work.items()}
    if only_remembered:
        work = {name: one for name, one in work.items() if not missing[name]}
        missing = {name: [] for name in work}
    total = sum(len(steps) for steps in missing.values())
    done = 0
    for step in sorted(
        {step for steps in missing.values() for step in steps}, key=lambda step: -1 if step is None else step
    ):
        for name, one in work.items():
            if step in missing[name]:
                tell(done, total, name if step is None else f"{name} at step {step:,}")
                done += 1
                try:
                    one.take(step)
                except ViewError as error:
                    refused[name] = str(error)
                    missing[name] = []
    tell(done, total, "")
    infos = {name: one.info() for name, one in work.items() if name not in refused}
    known = sum(len(one.steps) + 1 for one in work.values()) - total
    return Dissection(infos, refused, total, known)


def reason(view: View, subject: Subject) -> str | None:
    """Why a view cannot be had of a subject."""
    if (why := view.refusal(subject.settings)) is not None:
        return why
    found = len(subject.steps(view.reads))
    if found >= view.fewest:
        return None
    setting = f"evaluation.keep_{view.reads}"
    return (
        f"needs {view.reads} of at least {view.fewest} evaluations and there are {found}; train with {setting} above 0"
    )


class Work:
    """One view of one subject, look by look."""

    def __init__(self, view: View, subject: Subject, cache: Cache) -> None:
        self.view, self.subject, self.cache = view, subject, cache
        self.steps = subject.steps(view.reads)
        self.keys = {step: key_of(view, subject, step) for step in (None, *self.steps)}
        self.taken: dict[int | None, Arrays] = {}
        self.bench: Bench | None = None

    def missing(self) -> list[int | None]:
        for step, key in self.keys.items():
            if (found := self.cache.get(key)) is not None:
                self.taken[step] = found
        return [step for step in self.keys if step not in self.taken]

    def take(self, step: int | None) -> None:
        if self.bench is None:
            self.bench = self.view.prepare(self.subject)
        found = self.bench.still() if step is None else self.bench.look(step)
        self.taken[step] = {name: np.ascontiguousarray(values) for name, values in found.items()}
        self.cache.put(self.keys[step], self.taken[step])

    def info(self) -> Info:
        names = self.taken[self.steps[0]] if self.steps else {}
        looks = {name: np.stack([self.taken[step][name] for step in self.steps]) for name in names}
        return self.view.info(self.subject, self.steps, self.taken[None], looks)
