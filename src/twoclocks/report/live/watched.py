"""One row of the live table: a run or the monitor of somebody's own loop, as it was last read from disk."""

from __future__ import annotations

import hashlib
import math
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.settings import POLICIES
from twoclocks.clocks.window import Clocks
from twoclocks.core.text import visible
from twoclocks.monitor.decision import Decision
from twoclocks.report.live.panels import plain
from twoclocks.report.live.samples import Samples

DELETED = "deleted"
DAMAGED = "damaged"
RENEWED = 1.02  # factor in steps after which the forecast is computed again
MOST_SENT = 200  # rows of one message; of more, the page asks for its curves anew

Json = dict[str, Any]
Points = list[tuple[float, dict[str, float | None]]]


@dataclass(frozen=True)
class Change:
    """What is new since the last reading; ``points`` is None where all curves must be asked for anew."""

    points: Points | None


class Watched(ABC):
    """Something in a folder that is read again and again. ``read`` is called by one thread, all else by any."""

    kind: ClassVar[str]

    def __init__(self, path: Path, folder: str) -> None:
        """``folder``: where it is, seen from the folder that was given; names are shown, never used as paths."""
        self.path, self.folder = path, visible(folder)
        self.id = hashlib.sha256(bytes(path)).hexdigest()[:12]
        self.lock = threading.Lock()
        self.state, self.note = "", ""
        self.decision: Decision | None = None
        self.summary: Json = {}
        self.details_of: tuple[int, Json] | None = None  # version and answer
        self.forecast_at: tuple[int, Json] | None = None  # step and words
        self.version = 0  # counts readings that found something new

    @abstractmethod
    def read(self) -> Change | None:
        """Read what is new on disk; None where nothing is."""

    @abstractmethod
    def about(self) -> Json:
        """What the table shows of it besides clocks, decision and state."""

    @abstractmethod
    def panels(self) -> list[Json]:
        """All curves."""

    @abstractmethod
    def samples(self) -> Samples:
        """The latest samples, or why there are none."""

    def poll(self) -> Change | None:
        """Read what is new, and keep a summary of it for the table."""
        with self.lock:
            try:
                change = self.read()
            except Exception as error:  # whatever is in a folder, the other runs are shown
                change = self.unreadable(f"cannot be read ({type(error).__name__}: {error})")
            if change is not None:
                self.version += 1
                self.summary = self.summarised()
            return change

    def unreadable(self, problem: str) -> Change | None:
        """Note a problem; None where it is known."""
        known = (self.state, self.note) == (DAMAGED, problem)
        self.state, self.note = DAMAGED, problem
        return None if known else Change([])

    def glance(self) -> None:
        """Have a first summary, before all rows are read, which takes longer."""
        if not self.summary:
            self.poll()

    def summarised(self) -> Json:
        clocks = None if self.decision is None else self.decision.clocks
        return {
            "id": self.id,
            "kind": self.kind,
            "folder": self.folder,
            "state": self.state,
            "note": visible(self.note),
            "phase": "" if self.decision is None else self.decision.phase,
            **clock_values(clocks),
            **self.about(),
        }

    def page(self) -> Json:
        """All that the page of this run shows at first."""
        with self.lock:
            decision = self.decision
            return {
                "run": self.summary,
                "panels": self.panels() if decision is not None else [],
                **clocks_and_decision(decision, self.policy),
            }

    @property
    @abstractmethod
    def policy(self) -> str:
        """When to stop, as the settings say."""

    def details(self) -> Json:
        """What takes longer: the forecast and the latest samples; computed once per state of the run."""
        with self.lock:
            known, version, decision = self.details_of, self.version, self.decision
        if known is not None and known[0] == version:
            return known[1]
        found = {"forecast": self.forecast(decision), "samples": self.samples()}
        self.details_of = version, found
        return found

    def forecast(self, decision: Decision | None) -> Json:
        """The forecast in words; one of a few steps ago is as good, and a new one of a long run takes a second."""
        if decision is None or decision.clocks.memory.seen or decision.clocks.suspected is not None:
            return forecast_words(decision)
        if self.forecast_at is None or not self.forecast_at[0] <= decision.step < RENEWED * self.forecast_at[0]:
            self.forecast_at = decision.step, forecast_words(decision)
        return self.forecast_at[1]


def clock_values(clocks: Clocks | None) -> Json:
    """Both clocks and the window as text, with numbers to sort by."""
    if clocks is None:
        return {"rule": "", "rule_step": None, "memory": "", "memory_step": None, "window": ""}
    learned = clocks.learned
    return {
        "rule": clocks.learned_words,
        "rule_step": None if learned is None else sort_step(learned),
        "memory": str(clocks.memory),
        "memory_step": sort_step(clocks.memory),
        "window": str(clocks),
    }


def sort_step(onset: Onset) -> float | None:
    """The step by which an onset was seen; None where it was not."""
    return plain(onset.upper) if onset.seen else None


def clocks_and_decision(decision: Decision | None, policy: str) -> Json:
    """The bands of the curves and the monitor's decision; what changes with every evaluation."""
    if decision is None:
        return {"bands": [], "decision": None}
    clocks = decision.clocks
    bands = [("τ_mem", "memory", clocks.memory)]
    if clocks.learned is not None:
        bands.insert(0, ("τ_rule", "rule", clocks.rule) if clocks.has_rule else ("τ_gen", "new", clocks.learned))
    low, high = decision.copy_rate_ci
    window = clocks.window
    return {
        "bands": [
            {"name": name, "colour": colour, "text": str(one), "from": plain(one.lower), "to": plain(one.upper)}
            for name, colour, one in bands
        ],
        "window": None if window is None else [plain(window[0]), plain(window[1])],
        "suspected": clocks.suspected,
        "decision": {
            "step": decision.step,
            "phase": decision.phase,
            "stop": decision.stop,
            "reason": visible(decision.reason),
            "policy": f"{policy}: {POLICIES[policy]}" if policy in POLICIES else policy,
            "copies": f"{decision.copy_rate:.3g} ({low:.3g}–{high:.3g})",
            "chance": "not known" if decision.copy_chance is None else f"{decision.copy_chance:.2g}",
            "valid": "" if decision.valid_rate is None else f"{decision.valid_rate:.3g}",
        },
    }


def forecast_words(decision: Decision | None) -> Json:
    """The forecast of τ_mem with its interval, or why there is none."""
    if decision is None:
        return {"text": "no forecast: there is no evaluation yet"}
    clocks, forecast = decision.clocks, decision.forecast
    if forecast is not None:
        interval = "no upper end yet" if math.isinf(forecast.high) else f"median and {100 * forecast.level:g}% interval"
        words = f"{forecast}: {interval}, from {forecast.basis}, at step {decision.step:,}"
        return {
            "text": words,
            "from": plain(forecast.low),
            "to": plain(forecast.high),
            "median": plain(forecast.median),
        }
    if clocks.memory.seen:
        return {"text": f"no forecast: copying has begun (τ_mem {clocks.memory})"}
    if clocks.suspected is not None:
        return {"text": f"no forecast: copying is suspected since step {clocks.suspected:,.0f}"}
    if decision.step == 0:
        return {"text": "no forecast: there is no evaluation after step 0"}
    return {"text": "no forecast: copies are above the threshold, or chance alone may be"}
