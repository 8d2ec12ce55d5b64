"""Each registered criterion can fill its line of a documentation table."""

from __future__ import annotations

import pytest

from twoclocks.monitor.criteria import CRITERIA


@pytest.mark.parametrize("name", CRITERIA.names())
def test_texts_for_tables_are_one_plain_line(name: str) -> None:
    member = CRITERIA.get(name)
    for text in (member.about, member.data):
        assert text and "\n" not in text and not text.endswith(".") and "|" not in text
