"""The stored state of a monitor: what it compares, and the counts of all looks, as plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoclocks.clocks.chance import Chance
from twoclocks.clocks.series import Look
from twoclocks.clocks.settings import POLICIES, ClockSettings, Policy
from twoclocks.core.config import build, to_mapping
from twoclocks.core.errors import UserError
from twoclocks.core.text import show
from twoclocks.monitor.record import Record, is_count, is_finite, latest_chance
from twoclocks.store.checksums import decode_document, encode_document
from twoclocks.store.files import DOCUMENT, DiskError, read, write_atomic

FORMAT = 2  # of the stored state
_FIX = "give what state() returned"


@dataclass(frozen=True)
class MonitorState:
    """All that is needed to continue a monitor, or to write its page."""

    train: str  # SHA-256 of the training rows
    settings: ClockSettings
    policy: Policy
    copies: str  # the definition of a copy
    validity: str | None  # name of the rule or of the function
    chance: Chance | None  # measured once, when the monitor was made
    rows: int  # of the training set as it was given
    distinct: int
    groups: int | None  # of near-duplicates, with every other row as its own group; None where they are not looked for
    symmetries: tuple[str, ...]  # names of the forms
    looks: tuple[Look, ...]

    @property
    def latest_chance(self) -> Chance | None:
        """The chance level at the last look."""
        return latest_chance(self.looks, self.chance, self.settings.claimed_confidence)

    def as_json(self) -> dict[str, Any]:
        about = {
            "train": self.train,
            "settings": to_mapping(self.settings),
            "policy": self.policy,
            "copies": self.copies,
            "validity": self.validity,
            "chance": None if self.chance is None else self.chance.as_json(),
            "rows": self.rows,
            "distinct": self.distinct,
            "groups": self.groups,
            "symmetries": list(self.symmetries),
        }
        return {"format": FORMAT, "about": about, "looks": [vars(look) for look in self.looks]}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> MonitorState:
        """The state that ``as_json`` returned; UserError for anything else."""
        if not isinstance(state, Mapping) or state.get("format") != FORMAT:
            raise UserError(f"state: it is not the state of a monitor of format {FORMAT}; {_FIX}")
        try:
            about, looks = dict(state["about"]), [Look(**look) for look in state["looks"]]
            about["settings"] = build(ClockSettings, about["settings"], "clocks")
            about["chance"] = None if about["chance"] is None else chance_of(about["chance"])
            check_about(about)
            record = Record(with_validity=False)
            for look in looks:
                record.add(look)
            about["symmetries"] = tuple(about["symmetries"])
            return cls(**about, looks=tuple(record.looks))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UserError(f"state: it is damaged ({show(error, 200)}); {_FIX}") from None

    def check_same(self, stored: MonitorState) -> None:
        """Raise UserError if a stored state was counted with another training set, criterion, validity or thresholds.

        The policy may differ: it changes no count.
        """
        for key, ours, theirs in (
            ("train", self.train, stored.train),
            ("copies", self.copies, stored.copies),
            ("validity", self.validity, stored.validity),
            ("symmetries", self.symmetries, stored.symmetries),
            ("chance", self.chance, stored.chance),
            ("settings", counting(self.settings), counting(stored.settings)),
        ):
            if ours != theirs:
                raise UserError(f"state: its {key} is {theirs!s:.200}, this monitor's {ours!s:.200}; use the same")


def chance_of(stored: Mapping[str, Any]) -> Chance:
    """A stored chance level; ValueError if it is none."""
    chance = Chance(**stored)
    ends = (chance.rate, chance.low, chance.high)
    if not all(is_finite(end) and 0 <= end <= 1 for end in ends) or not isinstance(chance.basis, str):
        raise ValueError("chance: it is no probability with its ends")
    return chance


def check_about(about: Mapping[str, Any]) -> None:
    """Raise ValueError if a value is of a kind that no state has."""
    kinds = {"train": str, "policy": str, "copies": str, "validity": str | None, "symmetries": list}
    for key, kind in kinds.items():
        if not isinstance(about[key], kind):
            raise ValueError(f"{key}: {about[key]!r:.80}")
    if about["policy"] not in POLICIES or not all(isinstance(name, str) for name in about["symmetries"]):
        raise ValueError("policy or symmetries: unknown")
    numbers = [about["rows"], about["distinct"], *([] if about["groups"] is None else [about["groups"]])]
    if not all(is_count(number) and number > 0 for number in numbers):
        raise ValueError("rows, distinct or groups: not counted")


def counting(settings: ClockSettings) -> dict[str, Any]:
    """The settings without the policy."""
    return {key: value for key, value in to_mapping(settings).items() if key != "stop"}


def write_state(state: Mapping[str, Any], path: Path) -> None:
    """Write a state as JSON with its SHA-256, whole or not at all, also if the power fails."""
    write_atomic(path, encode_document(dict(state)))


def read_state(path: Path) -> dict[str, Any]:
    """Read what ``write_state`` wrote."""
    try:
        return decode_document(read(path, DOCUMENT))
    except (OSError, ValueError) as error:
        why = error.error.strerror if isinstance(error, DiskError) else error
        where = show(str(path), 200)
        raise UserError(f"path: {where} cannot be read as a state ({why}); give a file that save wrote") from None
