"""One registry type for everything that can be extended: rules, models, objectives, encodings, claims.

A component registers itself once, beside its definition; settings, command-line help, documentation tables and
contract tests iterate the registry. Other packages register through an entry point of the group
``twoclocks.<kind>s`` that imports the module in which they call ``register``; single files through ``--import``
(``twoclocks.core.plugins``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, TypeVar

from twoclocks.core.errors import UnknownNameError

log = logging.getLogger("twoclocks")
_FIX = "its components are missing; update or uninstall it"

T = TypeVar("T")
Member = TypeVar("Member", bound=type[Any])


class Registry(Generic[T]):
    """Maps names to subclasses of ``base``.

    >>> shapes = Registry("shape", object)
    >>> @shapes.register("square")
    ... class Square: ...
    >>> shapes.names()
    ['square']
    """

    extended: ClassVar[bool] = False  # whether a class from outside of this package was registered, in any registry

    def __init__(self, kind: str, base: type[T]) -> None:
        self.kind = kind
        self.base = base
        self._members: dict[str, type[T]] = {}
        self._plugins_loaded = False

    def register(self, name: str) -> Callable[[Member], Member]:
        """Class decorator; refuses a second owner of a name and classes of another kind."""

        def add(original: Member) -> Member:
            member: type[Any] = original
            if not issubclass(member, self.base):
                raise TypeError(f"{self.kind} {name!r}: {member.__name__} must derive from {self.base.__name__}")
            if name in self._members:
                owner = self._members[name]
                raise ValueError(f"{self.kind} {name!r} is already registered by {owner.__module__}.{owner.__name__}")
            self._members[name] = member
            if member.__module__.split(".")[0] != "twoclocks":
                Registry.extended = True
            return original

        return add

    def _load_plugins(self) -> None:
        if not self._plugins_loaded:
            self._plugins_loaded = True
            for entry in entry_points(group=f"twoclocks.{self.kind}s"):
                _load_entry_point(entry)

    def names(self) -> list[str]:
        self._load_plugins()
        return sorted(self._members)

    def items(self) -> Iterator[tuple[str, type[T]]]:
        return ((name, self._members[name]) for name in self.names())

    def get(self, name: str) -> type[T]:
        self._load_plugins()
        if name not in self._members:
            raise UnknownNameError(f"{self.kind}.name", name, self._members)
        return self._members[name]

    def name_of(self, member: object) -> str:
        """The name under which an instance's class was registered."""
        for name, cls in self.items():
            if type(member) is cls:
                return name
        raise KeyError(f"{type(member).__name__} is not a registered {self.kind}")

    def create(self, name: str, **settings: Any) -> T:
        """Instance of the named member; bad arguments get the error of its own settings check."""
        from twoclocks.core.config import build

        return build(self.get(name), settings, self.kind)


def _load_entry_point(entry: EntryPoint) -> None:
    """Import what an installed package registers; a package that fails costs a warning, not the command."""
    try:
        entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else entry.value
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        log.warning(f"{package}: its {entry.group} entry point {entry.name!r} cannot be imported ({reason}); {_FIX}")
