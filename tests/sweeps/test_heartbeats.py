"""Which attempts count as silent, without Ray: ``test_ray.py`` stops real processes."""

from __future__ import annotations

import time
from typing import Any

from twoclocks.sweeps.heartbeats import Heartbeats, SilenceTimer, send_heartbeats


def test_silence_is_the_time_without_a_change() -> None:
    timer = SilenceTimer(limit=10.0, interval=5.0)
    for beat in range(1, 9):  # one sends, one stopped after its first heartbeat
        silent = timer.update({"living": (beat, "p"), "stopped": (1, "q")}, now=4.0 * beat)
        assert silent == (["stopped"] if beat >= 4 else [])
    timer.forget("stopped")
    assert timer.update({"living": (8, "p")}, now=33.0) == []
    assert timer.update({"living": (8, "p")}, now=42.5) == ["living"]


def test_what_is_queued_is_not_silent() -> None:
    timer = SilenceTimer(limit=1.0, interval=5.0)
    assert [timer.update({}, now) for now in range(0, 100, 4)] == [[]] * 25


def test_a_coordinator_that_was_suspended_does_not_cancel_everything() -> None:
    timer = SilenceTimer(limit=300.0, interval=5.0)
    timer.update({"a": (7, "p")}, now=0.0)
    assert timer.update({"a": (7, "p")}, now=9000.0) == []
    assert timer.update({"a": (8, "p")}, now=9005.0) == [] and timer.quiet == {"a": 0.0}


def test_an_actor_that_was_started_again_has_no_counts_at_first() -> None:
    timer = SilenceTimer(limit=10.0, interval=5.0)
    timer.update({"a": (7, "p"), "stopped": (3, "q")}, now=0.0)
    assert timer.update({}, now=5.0) == []
    assert timer.update({"a": (1, "p")}, now=10.0) == ["stopped"]


class Direct:
    """Calls an object at once, with the syntax of Ray's actors."""

    def __init__(self, call: Any) -> None:
        self.remote = call

    def options(self, **options: Any) -> Direct:
        assert options == {"num_returns": 0}  # nothing comes back, so nothing is stored
        return self


def test_heartbeats_are_sent_until_the_end() -> None:
    heartbeats = Heartbeats()

    class Actor:
        add = Direct(heartbeats.add)

    with send_heartbeats(Actor, "a", 0.01):
        assert heartbeats.counts["a"][0] >= 1, "the first one says that the attempt has begun"
        while heartbeats.read(["a"])["a"][0] < 4:
            time.sleep(0.01)
    time.sleep(0.05)
    ended = heartbeats.read(["a"])
    time.sleep(0.05)
    assert heartbeats.read(["a"]) == ended
    assert heartbeats.read(["other"]) == {} and heartbeats.counts == {}
