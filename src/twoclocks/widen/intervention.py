"""The base class of interventions: a named change of a run's settings that may move its clocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.core.config import Settings, build
from twoclocks.core.errors import SettingError, UnknownNameError
from twoclocks.core.registry import Registry
from twoclocks.runs.columns import Weights
from twoclocks.runs.settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class Intervention(Settings):
    """One change to try, and how strong it is.

    To add one: a subclass with ``change``, registered under a name, in one file of the folder ``interventions``. It
    does not apply to a run if the changed settings are refused; their error says why.
    """

    weights: ClassVar[Weights] = "raw"  # whose samples are read: those of the raw or of the averaged weights

    @abstractmethod
    def change(self, base: RunSettings) -> dict[str, Any]:
        """The settings that differ from those of the base, by dotted name."""


INTERVENTIONS: Registry[Intervention] = Registry("intervention", Intervention)


def choose_interventions(names: Sequence[str] | None, settings: Mapping[str, Any]) -> dict[str, Intervention]:
    """Interventions by name, by default all, each with its own settings: ``{"dropout": {"rate": 0.2}}``."""
    chosen = INTERVENTIONS.names() if names is None else list(dict.fromkeys(names))
    for name in (*chosen, *settings):
        if name not in INTERVENTIONS.names():
            raise UnknownNameError("intervention", name, INTERVENTIONS.names())
    for name, section in settings.items():
        if name not in chosen:
            raise UnknownNameError("--with", name, chosen)
        if not isinstance(section, Mapping):
            raise SettingError(name, section, f"name one of its settings: --{name}.KEY VALUE")
    return {name: build(INTERVENTIONS.get(name), settings.get(name, {}), name) for name in chosen}
