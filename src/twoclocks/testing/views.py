"""The contract of views: what every view must do, whoever wrote it."""

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
    """Check that a view is repeatable, that its measurements can be cached, and that it gives sentences and numbers.

    ``run`` is any finished run; a view that does not apply to it must give the reason.
    """
    assert build(type(view), to_mapping(view)) == view, "a view must be rebuilt from its own settings"
    assert set(view.interprets) <= set(to_mapping(view)), "interprets names a setting that is not there"
    name = VIEWS.name_of(view)
    why = view.refusal(run.settings)
    assert why is None or (isinstance(why, str) and why), "refusal must return a reason or None"
    with tempfile.TemporaryDirectory() as folder:
        subject, cache = RunSubject(run), Cache(Path(folder))
        first = dissect(subject, {name: view}, cache)
        if why is not None:
            assert first.refused == {name: why} and not first.infos
            return
        assert name in first.infos, f"refused without a reason beforehand: {first.refused}"
        again = dissect(RunSubject(run), {name: view}, cache)
        assert again.measured == 0, (
            "a measurement is repeated although it was cached: its key depends on something that changes"
        )
        fresh = dissect(RunSubject(run), {name: view})
    info = first.infos[name]
    for other in (again, fresh):
        assert other.infos[name].numbers() == info.numbers(), (
            "the same run gives other numbers when it is measured again"
        )
    json.dumps(info.numbers(), allow_nan=False)
    assert info.sentences() and not any("nan" in sentence.split() for sentence in info.sentences())
    assert info.steps.tolist() == list(subject.steps(view.reads)), "a step is missing"
