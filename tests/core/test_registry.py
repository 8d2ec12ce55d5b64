from __future__ import annotations

import pytest

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
