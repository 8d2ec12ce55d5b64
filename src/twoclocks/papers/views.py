"""Views of a run's checkpoints for figures and claims: measured on a run directory, or read from committed arrays.

Weights are too large to be committed. What a view measured on them is not: one compressed file per run and view, beside
the rows of the run, from which the view summarises as if it had just measured.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.config import build, to_mapping
from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.data.encodings import Decoded
from twoclocks.dissection.cache import Cache
from twoclocks.dissection.execution import Report, Work, choose_views, dissect_run, remembered
from twoclocks.dissection.subject import Reads, RunSubject, Subject
from twoclocks.dissection.view import VIEWS, Info, View
from twoclocks.objectives.base import Network
from twoclocks.papers.records import Record
from twoclocks.runs.load import Run
from twoclocks.runs.rows import StoredRun, file_name
from twoclocks.store.files import read, write_atomic
from twoclocks.store.folders import DERIVED

CONSTANT, MEASURED = "constant.", "measured."  # prefixes of the arrays in a file
HALF = 1 << 16  # entries from which floats are stored in half precision


class StoredSubject(Subject):
    """The settings and data of a run whose weights are elsewhere: enough to summarise measurements."""

    def __init__(self, run: StoredRun, known: Sequence[int]) -> None:
        super().__init__(run.settings, "cpu", run.clocks())
        self.known = tuple(known)

    def steps(self, reads: Reads) -> tuple[int, ...]:
        return self.known

    def network(self, step: int) -> Network:
        raise UserError("the weights of a committed run are not there; repeat the run to measure something new")

    def samples(self, step: int) -> Decoded:
        raise UserError("the samples of a committed run are not there; repeat the run to measure something new")


def view_of(record: Record, name: str, **interpretation: Any) -> Info | None:
    """What a view shows of a run; None where it was not measured and cannot be.

    Of several runs of the same identity, the longest on which it was measured is read; if there is none, the longest on
    which it can be measured. ``interpretation`` changes settings of the summary, such as the ``departure`` of
    ``spectrum``; nothing is measured again for them.
    """
    runs = sorted((one.run for one in record.versions), key=lambda run: not has_view(run, name))
    found = (view_of_run(run, name, interpretation) for run in runs)
    return next((info for info in found if info is not None), None)


def has_view(run: Run, name: str) -> bool:
    """Whether a view was measured on a run."""
    if isinstance(run, StoredRun):
        return view_file(run.path, name).is_file()
    return name in remembered(run.path / DERIVED).get("views", {})


def view_of_run(run: Run, name: str, interpretation: Mapping[str, Any]) -> Info | None:
    """What a view shows of this very run; None where it was not measured and cannot be."""
    if isinstance(run, StoredRun):
        path = view_file(run.path, name)
        return read_view(run, path, interpretation) if path.is_file() else None
    # In the precision in which it was measured, if it was: to measure P1's networks again on a CPU takes hours.
    known = remembered(run.path / DERIVED)
    precision = known["precision"] if name in known.get("views", {}) else None
    return dissect_run(run, choose_views([name], {name: interpretation}), precision=precision).infos.get(name)


def view_file(rows: Path, name: str) -> Path:
    """The file of a view beside the rows of a run."""
    return rows.with_name(f"{rows.stem}.{name}.view")


def write_views(
    run: Run,
    folder: Path,
    names: Sequence[str],
    device: str | None = None,
    report: Report = lambda done, total, words: None,
    precision: str | None = None,
) -> list[Path]:
    """Measure views on a finished run, and write what they measured beside its rows; returns the files.

    ``report`` is called before every measurement. It may raise: what was measured is kept in the run directory, and
    the next call goes on from there. UserError where a view cannot be measured; the others are written before.
    """
    chosen = choose_views(names)
    found = dissect_run(run, chosen, device, report, precision=precision)
    subject, written = RunSubject(run, device, precision), []
    for name in found.infos:
        work = Work(chosen[name], subject, Cache(run.path / DERIVED))
        arrays: dict[str, Any] = {CONSTANT + key: smaller(array) for key, array in work.taken[None].items()}
        for key in work.taken[work.steps[0]]:
            arrays[MEASURED + key] = smaller(np.stack([work.taken[step][key] for step in work.steps]))
        path = view_file(folder / file_name(run.settings), name)
        write_atomic(path, encode_view(name, chosen[name], work.steps, arrays))
        written.append(path)
    for name, reason in found.refused.items():
        raise UserError(f"view {name} of {run.label}: {reason}")
    return written


def encode_view(name: str, view: View, steps: Sequence[int], arrays: Mapping[str, Any]) -> bytes:
    """The file of a view: a line that says what it is, then its arrays."""
    from safetensors.numpy import save

    about = {"view": name, "settings": to_mapping(view), "steps": list(steps)}
    return json.dumps(about).encode() + b"\n" + zlib.compress(save(dict(arrays)), 9)


def smaller(array: Any) -> Any:
    """Large arrays of floats, such as images of a score field, in half precision, which drawings cannot show."""
    large = array.dtype.kind == "f" and array.size >= HALF
    return array.astype(np.float16) if large and np.abs(array[np.isfinite(array)]).max(initial=0) < 6e4 else array


def read_view(run: StoredRun, path: Path, interpretation: Mapping[str, Any] | None = None) -> Info:
    """The summary of committed measurements, by the settings with which they were made or by others of the summary."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    first, _, data = read(path).partition(b"\n")
    try:
        about, arrays = json.loads(first), load(zlib.decompress(data))
        steps: list[int] = about["steps"]
    except (ValueError, KeyError, TypeError, zlib.error, SafetensorError) as error:
        raise UserError(f"{path}: holds no measurements of a view ({error}); restore the file") from None
    constants, measured = (
        {key.removeprefix(prefix): widened(array) for key, array in arrays.items() if key.startswith(prefix)}
        for prefix in (CONSTANT, MEASURED)
    )
    kind, change = VIEWS.get(about["view"]), interpretation or {}
    for key in change:
        if key not in kind.interprets:
            raise UnknownNameError(f"setting of the summary of {about['view']}", key, kind.interprets)
    view = build(kind, {**about["settings"], **change}, about["view"])
    return view.info(StoredSubject(run, steps), steps, constants, measured)


def widened(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype == np.float16 else array
