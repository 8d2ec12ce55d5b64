"""What the first screen of a page says of a run: the verdict, both clocks, the window, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twoclocks.clocks.window import Clocks, steps_words

STATES = {"open": "new", "suspected": "broken", "empty": "memory", "unknown": "muted"}  # verdict: colour
MOST_STEPS = 3  # stored weights that are named


@dataclass(frozen=True)
class Answer:
    """One run in a few words."""

    verdict: str
    colour: str  # a name of the theme
    learned: str  # τ_rule, or τ_gen of data without a rule
    learned_name: str
    memory: str
    window: str
    advice: str


def answer_of(clocks: Clocks, stored: Iterable[int] = ()) -> Answer:
    """The answer from the clocks of a run; ``stored``: the steps whose weights are on disk."""
    first = clocks.learned
    return Answer(
        verdict=f"window {clocks.verdict}" if clocks.verdict != "suspected" else "copying suspected",
        colour=STATES[clocks.verdict],
        learned=str(first) if first is not None else "no rule",
        learned_name="τ_rule" if clocks.has_rule else "τ_gen",
        memory=str(clocks.memory),
        window=window_words(clocks),
        advice=advice(clocks, sorted(stored)),
    )


def window_words(clocks: Clocks) -> str:
    """The steps of the window, or that there are none."""
    if clocks.window is None:
        return "none" if clocks.verdict == "empty" else "not known"
    begin, end = clocks.window
    return f"from {begin:,.0f}, no end seen" if end == float("inf") else steps_words(begin, end)


def advice(clocks: Clocks, stored: list[int]) -> str:
    """What to do after this run, in one or two sentences."""
    learned, window = clocks.learned, clocks.window
    if clocks.verdict == "suspected":
        use = f" Until then, use weights of step {clocks.copy_free_until:,.0f} or earlier."
        return f"Evaluate with more samples, or train longer, to know whether it copies.{use}"
    if window is not None:
        begin, end = window
        inside = [step for step in stored if begin <= step <= end]
        kept = f" {stored_words(inside)}" if stored else ""
        if end == float("inf"):
            later = "No copying was seen; train longer to find where it begins."
            return f"Use weights from step {begin:,.0f} on.{kept} {later}"
        return f"Stop training by step {end:,.0f}, and use weights from step {begin:,.0f} on.{kept}"
    if clocks.verdict == "empty":
        return "No step gives samples that are both good and new. Train on more samples, or use a smaller model."
    if clocks.memory.seen and (learned is None or not learned.seen):
        return f"Stop training by step {clocks.memory.lower:,.0f}: after it, samples are copies."
    if learned is not None and learned.seen and clocks.memory.seen:
        low, high = min(learned.lower, clocks.memory.lower), max(learned.upper, clocks.memory.upper)
        where = f"between step {low:,.0f} and step {high:,.0f}"
        return f"The intervals of both clocks overlap. Evaluate more often, and with more samples, {where}."
    if learned is not None and learned.seen:
        return f"Copying cannot be excluded by step {learned.upper:,.0f}. Evaluate with more samples, or train longer."
    return "Neither clock was reached. Train longer." if learned is not None else "No copying was seen. Train longer."


def stored_words(steps: list[int]) -> str:
    """Which of the stored weights are inside the window."""
    if not steps:
        return "No weights were stored there; keep some with evaluation.keep_weights."
    named = ", ".join(f"{step:,}" for step in steps[:MOST_STEPS])
    more = f" and {len(steps) - MOST_STEPS} more" if len(steps) > MOST_STEPS else ""
    return f"Stored there: step{'s' if len(steps) > 1 else ''} {named}{more}."
