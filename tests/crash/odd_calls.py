"""Odd calls of the monitor and of its criteria, each with a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from odd_values import BITS, COPIES, FLOATS, GOOD, IMAGES, NEAR, SETTINGS, STEPS, odd_rows, wrong_functions

import twoclocks as tc
from twoclocks.monitor import (
    Correlation,
    Distance,
    Embedding,
    Exact,
    Extractable,
    Hamming,
    Look,
    PerceptualHash,
    Ratio,
    Verbatim,
    measure_extraction,
)

Call = tuple[str, Callable[[], Any]]
PATHS = ("", ".", "..", "x.nonsense", "x", "no/such/folder/x.png", "\0.png", "a" * 300 + ".png", "~/x.png", "x.PNG")
METHODS = ("save", "load", "report", "gallery")


def embedding(**settings: Any) -> Embedding:
    return Embedding(np.asarray, **settings)


def good(kind: str) -> tc.Monitor:
    """A monitor that nothing is wrong with, after one look."""
    found = tc.Monitor(GOOD[kind], copies=Verbatim(3)) if kind == "texts" else tc.Monitor(GOOD[kind])
    found.observe(0, GOOD[kind])
    return found


def answer(prefixes: Any, length: int) -> Any:
    return np.zeros((len(prefixes), length), dtype=np.int64)


def construction_calls() -> Iterator[Call]:
    texts = GOOD["texts"]
    for name, value in odd_rows().items():
        yield f"Monitor({name})", lambda value=value: tc.Monitor(value).observe(1, value)
        for kind in ("bits", "floats", "texts"):
            held_out = {"held_out": value, **({"copies": Verbatim(3)} if kind == "texts" else {})}
            yield f"{kind}: held_out={name}", lambda kind=kind, more=held_out: tc.Monitor(GOOD[kind], **more)
        yield f"train={name}", lambda v=value: measure_extraction(v, answer, prefix=1, tokens=1)
        yield f"new={name}", lambda v=value: measure_extraction(BITS, answer, v, prefix=1, tokens=1)
        yield f"answer={name}", lambda v=value: measure_extraction(BITS, lambda a, n: v, prefix=1, tokens=1)
        yield f"runs={name}", lambda v=value: good("texts").run_lengths(GOOD["texts"], v)
        for argument in ("copies", "symmetries", "settings", "policy", "rule", "valid"):
            yield f"{argument}={name}", lambda a=argument, v=value: tc.Monitor(IMAGES, **{a: v}).observe(1, IMAGES)
    for name, value in wrong_functions().items():
        yield f"symmetries=[{name}]", lambda v=value: tc.Monitor(IMAGES, symmetries=[v]).observe(1, IMAGES)
        yield f"valid={name}", lambda v=value: tc.Monitor(BITS, valid=v).observe(1, BITS)
        yield f"Distance({name})", lambda v=value: tc.Monitor(BITS, copies=Distance(v, 1.0)).observe(1, BITS)
        yield f"Embedding({name})", lambda v=value: tc.Monitor(BITS, copies=Embedding(v)).observe(1, BITS)
        yield f"generate={name}", lambda v=value: measure_extraction(BITS, v, prefix=1, tokens=1)
        yield (
            f"split={name}",
            lambda v=value: tc.Monitor(texts, copies=Verbatim(3, split=v)).observe(1, texts),
        )


def criterion_calls() -> Iterator[Call]:
    texts = GOOD["texts"]
    made: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "Hamming most": (Hamming, BITS),
        "Hamming floats": (lambda v: Hamming(1, floats=v), BITS),
        "Exact floats": (Exact, BITS),
        "Ratio below": (Ratio, FLOATS),
        "Ratio next_rows": (lambda v: Ratio(0.3, v), FLOATS),
        "Correlation above": (Correlation, FLOATS),
        "PerceptualHash most": (PerceptualHash, IMAGES),
        "Embedding cosine_above": (lambda v: embedding(cosine_above=v), FLOATS),
        "Embedding batch": (lambda v: embedding(batch=v), FLOATS),
        "Embedding name": (lambda v: embedding(name=v), FLOATS),
        "Verbatim tokens": (Verbatim, texts),
        "Extractable prefix": (lambda v: Extractable(v, 1), BITS),
        "Extractable tokens": (lambda v: Extractable(1, v), BITS),
        "Extractable decode": (lambda v: Extractable(1, 1, decode=v), BITS),
        "Verbatim padding": (lambda v: Verbatim(3, padding=v), texts),
        "Distance below": (lambda v: Distance(lambda a, b: np.ones(len(a)), v), BITS),
    }
    for criterion, (make, rows) in made.items():
        for name, value in SETTINGS.items():
            yield (
                f"{criterion}={name}",
                lambda m=make, v=value, r=rows: tc.Monitor(r, copies=m(v)).observe(1, r),
            )
    for name in tc.monitor.CRITERIA.names():
        for kind, rows in GOOD.items():
            yield f"copies={name} of {kind}", lambda n=name, r=rows: tc.Monitor(r, copies=n).observe(1, r)


def observation_calls(folder: Path) -> Iterator[Call]:
    for name, value in odd_rows().items():
        for kind in GOOD:
            yield f"{kind}: observe(1, {name})", lambda k=kind, v=value: good(k).observe(1, v)
        yield f"train_loss={name}", lambda v=value: good("bits").observe(1, BITS, v, 1.0)
        yield f"held_out_loss={name}", lambda v=value: good("bits").observe(1, BITS, [1.0, 2.0], v)
        yield f"load_state({name})", lambda v=value: good("bits").load_state(v)
        yield f"observe_counts({name})", lambda v=value: good("bits").observe_counts(v)
        for method in METHODS:
            yield f"{method}({name})", lambda m=method, v=value: getattr(good("bits"), m)(v)
    for name, value in STEPS.items():
        yield f"step={name}", lambda v=value: good("bits").observe(v, BITS)
        for field in ("step", "copied", "trials", "valid", "gap", "gap_error", "copied_valid", "held_out_copied"):
            look = {"step": 5, "copied": 1, "trials": 9, field: value}
            look |= {"held_out_trials": 9} if field == "held_out_copied" else {}
            yield f"Look({field}={name})", lambda look=look: good("bits").observe_counts(Look(**look))
    for name in PATHS:
        for method in METHODS:
            yield (
                f"{method}({name[:20]!r})",
                lambda m=method, n=name: getattr(good("bits"), m)(n and str(folder / n)),
            )
    empty = tc.Monitor(BITS)
    for method in ("decision", "clocks"):
        yield f"{method} of nothing", lambda m=method: getattr(empty, m)()


def copy_calls() -> Iterator[Call]:
    """Calls that must find that everything is a copy."""

    def found(rate: float) -> None:
        assert rate == 1, f"copies were not found: {rate}"

    for name, rows in COPIES.items():
        same = rows.reshape(len(BITS), -1) if name == "flat 2d rows" else rows
        yield f"{name} against bits", lambda r=same: found(tc.Monitor(BITS).observe(1, r).copy_rate)
        yield f"bits against {name}", lambda r=rows: found(tc.Monitor(r).observe(1, BITS).copy_rate)
    exact = Exact(floats=True)
    for name, rows in NEAR.items():
        if name != "decimals":
            yield f"{name} against floats", lambda r=rows: found(tc.Monitor(FLOATS).observe(1, r).copy_rate)
            yield f"floats against {name}", lambda r=rows: found(tc.Monitor(r).observe(1, FLOATS).copy_rate)
            yield f"{name}, equal", lambda r=rows: found(tc.Monitor(FLOATS, copies=exact).observe(1, r).copy_rate)
            yield f"equal to {name}", lambda r=rows: found(tc.Monitor(r, copies=exact).observe(1, FLOATS).copy_rate)


def calls(folder: Path) -> Iterator[Call]:
    yield from construction_calls()
    yield from criterion_calls()
    yield from observation_calls(folder)
    yield from copy_calls()
