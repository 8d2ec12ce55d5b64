"""Draw docs/speed_where.png and docs/speed_growth.png from results/speed_h200.json and results/speed_cpu.json.

python tools/draw_speed.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twoclocks.bench import curves, where
from twoclocks.core.theme import picture
from twoclocks.store.files import write_atomic

ROOT = Path(__file__).parents[1]


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "results" / f"{name}.json").read_text("utf-8"))
    return found


def main() -> None:
    gpu, cpu = record("speed_h200"), record("speed_cpu")
    write_atomic(ROOT / "docs" / "speed_where.png", picture(where.draw(gpu["where"])))
    write_atomic(
        ROOT / "docs" / "speed_growth.png", picture(curves.draw([*gpu["growth"]["rows"], *cpu["growth"]["rows"]]))
    )


if __name__ == "__main__":
    main()
