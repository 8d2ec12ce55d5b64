"""Tables of the benchmark are readable: nothing is cut or broken at 80 and 120 columns, all says what was measured."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from twoclocks.bench.factors import STAGES, factor_rows
from twoclocks.bench.tables import Block, tables
from twoclocks.report import console

RESULTS = Path(__file__).parents[2] / "results"
LOOPS = ["ours", "plain", "plain TF32", "plain bfloat16", "compiled bfloat16", "products alone"]


def new_record() -> dict[str, Any]:
    """As the next record from a GPU will be, with every optional part and one loop that could not be compiled."""
    rates = dict(zip(LOOPS, [12345.6, 1234.5, 1500.0, 1400.0, 5000.0, 23456.7], strict=True))
    stages = {stage.loop: 1234.5 * 1.5**place for place, stage in enumerate(STAGES["cuda"])}
    row = {
        "work": "DiT-mini, batch 256",
        "steps_per_second": rates,
        "over_best_plain": 8.23,
        "best_plain": "plain TF32",
        "over_best_compiled": 2.47,
        "best_compiled": "compiled bfloat16",
        "compiled": {
            "compiled bfloat16": {"mode": "default", "seconds_to_first_step": 123.4},
            "compiled bfloat16, CUDA graphs": {
                "mode": "reduce-overhead",
                "failed": "RuntimeError: no way" + ", no way" * 20,
            },
        },
        "factors": factor_rows(stages, "cuda"),
        "products_alone": {"one after another": 23456.7},
        "of_products": 0.526,
        "operations_per_second": 2e12,
        "seconds_to_first_step": 1.25,
    }
    return {"ceiling": {"operations_per_second": 8e12}, "steps": [row]}


def records() -> dict[str, dict[str, Any]]:
    stored = {name: json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in ("speed_h200", "speed_cpu")}
    return {**stored, "new": new_record()}


def printed(block: Block, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    out = io.StringIO()
    monkeypatch.setattr(console, "wide_console", lambda: Console(width=width, file=out))
    console.show_table(*block)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["speed_h200", "speed_cpu", "new"])
def test_no_heading_and_no_value_is_cut(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is one line of whole cells, and every sentence is there with its words whole."""
    blocks = tables(records()[name])
    assert blocks
    for block in blocks:
        text = printed(block, width, monkeypatch)
        lines = text.split("\n")
        assert max(map(len, lines)) <= width
        seen = [re.split(r" {2,}", line.strip()) for line in lines]
        for cells in (list(block.rows[0]), *(list(row.values()) for row in block.rows)):
            assert [cell for cell in cells if cell] in seen
        assert all(sentence in " ".join(text.split()) for sentence in block.sentences)
        assert block.title in lines


def test_tables_say_what_the_record_says() -> None:
    loops, factors = tables(new_record())
    said = {row.pop("loop"): list(row.values()) for row in loops.rows}
    assert said == {
        "ours": ["12,345.6", "", "1.2 s"],
        "plain": ["1,234.5", "10.00× as fast", ""],
        "plain TF32": ["1,500.0", "8.23× as fast", ""],
        "plain bfloat16": ["1,400.0", "8.82× as fast", ""],
        "compiled bfloat16": ["5,000.0", "2.47× as fast", "123.4 s"],
        "compiled bfloat16, CUDA graphs": ["failed", "", ""],
        "products alone": ["23,456.7", "0.53× as fast", ""],
    }
    against, room, failure = loops.sentences
    assert "8.23× as fast as the best plain loop (plain TF32)" in against
    assert "2.47× as fast as the best compiled loop (compiled bfloat16)" in against
    assert "took time (one after another), a loop could be 15.64× as fast as the best plain loop" in room
    assert "53% of that, and 25% of this machine's ceiling" in room
    assert failure.startswith("compiled bfloat16, CUDA graphs: torch.compile failed: RuntimeError: no way")
    assert factors.rows[3]["new in it"] == "bfloat16" and factors.rows[3]["factor"] == "1.50×"
    assert factors.sentences[0].startswith(
        "Ours is 7.59× as fast as plain: 1.50× from our step, 1.50× from TF32, 1.50×"
    )


def test_records_from_before_have_the_same_tables_without_what_was_not_measured() -> None:
    record = {"ceiling": {"operations_per_second": 8e12}, "steps": [dict(new_record()["steps"][0])]}
    for name in ("best_plain", "over_best_compiled", "best_compiled", "compiled", "factors", "products_alone"):
        del record["steps"][0][name]
    (loops,) = tables(record)
    assert loops.sentences[0] == "Ours is 8.23× as fast as the best plain loop (plain TF32)."
    assert "took time, a loop" in loops.sentences[1] and len(loops.sentences) == 2
