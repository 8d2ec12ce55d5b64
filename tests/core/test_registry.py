from __future__ import annotations

import pytest

from twoclocks.core import registry
from twoclocks.core.errors import UnknownNameError
from twoclocks.core.registry import Registry


class Animal: ...


def test_register_get_and_name_of() -> None:
    animals = Registry("animal", Animal)

    @animals.register("cat")
    class Cat(Animal): ...

    assert animals.get("cat") is Cat
    assert animals.name_of(Cat()) == "cat"
    assert animals.names() == ["cat"]


def test_collision_and_wrong_type_are_refused() -> None:
    animals = Registry("animal", Animal)
    animals.register("cat")(type("Cat", (Animal,), {}))
    with pytest.raises(ValueError, match="already registered"):
        animals.register("cat")(type("Cat", (Animal,), {}))
    with pytest.raises(TypeError, match="must derive from Animal"):
        animals.register("stone")(type("Stone", (), {}))
    with pytest.raises(UnknownNameError, match="did you mean 'cat'"):
        animals.get("cats")


class FailingEntryPoint:
    """An entry point of an installed package whose import fails."""

    name, group, value = "mine", "twoclocks.animals", "broken.module"

    class dist:  # noqa: N801 (its name in importlib.metadata)
        name = "broken-package"

    def load(self) -> None:
        raise ImportError("cannot import name 'Base'\n(from an older version)")


def test_a_plug_in_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[str] = []

    def entry_points(group: str) -> list[FailingEntryPoint]:
        asked.append(group)
        return [FailingEntryPoint()]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    animals = Registry("animal", Animal)
    animals.register("cat")(type("Cat", (Animal,), {}))
    assert animals.names() == ["cat"] and animals.names() == ["cat"]  # the others can be used
    assert asked == ["twoclocks.animals"]
    (record,) = caplog.records
    said = record.getMessage()
    assert "\n" not in said and record.levelname == "WARNING"
    for part in ("broken-package", "'mine'", "ImportError: cannot import name 'Base'", "update or uninstall it"):
        assert part in said
