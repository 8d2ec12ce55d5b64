"""The contract of views: checks that every view must pass, also one from outside of the package."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from twoclocks.core.config import build, to_mapping
from twoclocks.dissection import RunSubject, View, dissect
from twoclocks.dissection.cache import Cache
from twoclocks.dissection.view import VIEWS
from twoclocks.runs.load import Run


def check_view(view: View, run: Run) -> None:
    """Check that a view is repeatable, that its measurements can be cached, and that it returns sentences and numbers.

    ``run`` is any finished run; for a run to which the view does not apply, ``refusal`` must return the reason.
    """
    assert build(type(view), to_mapping(view)) == view, "build(type(view), to_mapping(view)) must equal the view"
    assert set(view.interprets) <= set(to_mapping(view)), "interprets names a setting that the view does not have"
    name = VIEWS.name_of(view)
    reason = view.refusal(run.settings)
    assert reason is None or (isinstance(reason, str) and reason), "refusal must return a non-empty string or None"
    with tempfile.TemporaryDirectory() as folder:
        subject, cache = RunSubject(run), Cache(Path(folder))
        first = dissect(subject, {name: view}, cache)
        if reason is not None:
            assert first.refused == {name: reason} and not first.infos
            return
        assert name in first.infos, f"refusal returned None, but the view could not be measured: {first.refused}"
        again = dissect(RunSubject(run), {name: view}, cache)
        assert again.measured == 0, "a cached measurement is repeated: its cache key depends on something that changes"
        fresh = dissect(RunSubject(run), {name: view})
    info = first.infos[name]
    for other in (again, fresh):
        assert other.infos[name].numbers() == info.numbers(), (
            "the same run gives different numbers when it is measured again"
        )
    json.dumps(info.numbers(), allow_nan=False)
    assert info.sentences() and not any("nan" in sentence.split() for sentence in info.sentences())
    assert info.steps.tolist() == list(subject.steps(view.reads)), "info.steps must be all steps that the view reads"
