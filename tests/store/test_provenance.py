"""The commit that a result names can be found again."""

from __future__ import annotations

import pytest

from twoclocks.core.errors import UserError
from twoclocks.store.provenance import commit

WHOLE = "2c0e44f31b30f43874b2fb3b9b0a2bf8427cd256"


@pytest.mark.parametrize("named", [WHOLE, WHOLE + "+"])
def test_a_copied_tree_takes_its_commit_from_the_environment(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOCLOCKS_COMMIT", named)
    assert commit.__wrapped__() == named


@pytest.mark.parametrize("named", ["2c0e44f31", "", "main", WHOLE + "-dirty"])
def test_a_commit_that_is_not_whole_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOCLOCKS_COMMIT", named)
    with pytest.raises(UserError, match=r"TWOCLOCKS_COMMIT.*git rev-parse HEAD"):
        commit.__wrapped__()
