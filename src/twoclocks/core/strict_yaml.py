"""The strict YAML loader: plain types, YAML 1.2's numbers, no repeated keys, and bounds on everything that can grow."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import yaml
from yaml.constructor import ConstructorError

from twoclocks.core.text import show

MOST_DEPTH = 32  # lists and mappings inside of each other
MOST_VALUES = 20_000  # aliases counted as often as they are used
MOST_CHARACTERS = 2_000_000  # of all values, aliases counted as often as they are used

TAG = "tag:yaml.org,2002:"
PLAIN_TAGS = {
    "scalar": {f"{TAG}{name}" for name in ("null", "bool", "int", "float", "str", "merge")},
    "sequence": {f"{TAG}seq"},
    "mapping": {f"{TAG}map"},
}
SIGNS_AND_DIGITS = "-+.0123456789"
PLAIN_TYPES: dict[str, tuple[str, str, Callable[[str], Any]]] = {  # name: (pattern, first characters, value of a text)
    "bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF", lambda text: text.lower() == "true"),
    "int": (r"^[-+]?[0-9]+$", SIGNS_AND_DIGITS, lambda text: int(text, 10)),
    "float": (
        r"^[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$",
        SIGNS_AND_DIGITS,
        lambda text: float(re.sub(r"\.(?=[iInN])", "", text)),  # .inf and .nan
    ),
}


class Size(NamedTuple):
    """The size of a value with every alias replaced by what it stands for."""

    values: int
    characters: int
    depth: int


class StrictLoader(yaml.SafeLoader):
    """Refuses repeated keys, tags of other types and deep nesting; reads numbers and booleans as YAML 1.2 does."""

    depth, values = 0, 0

    def get_single_data(self) -> Any:
        """The value of the only document, whose size is known before anything is made of it."""
        node = self.get_single_node()
        if node is None:
            return None
        expanded_size(node, {})
        return self.construct_document(node)

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self.depth, self.values = self.depth + 1, self.values + 1
        check_bounds(Size(self.values, 0, self.depth), mark)  # while it is read: nothing runs away
        node: Any = super().compose_node(parent, index)
        self.depth -= 1
        if node is not None and node.tag not in PLAIN_TAGS[node.id]:
            raise wrong(f"the type {show(node.tag.replace(TAG, '!!'))} does not fit; leave it out", mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise wrong("a list or a mapping as a key; use a word", key.start_mark)
            if key.value in seen and key.tag != f"{TAG}merge":
                raise wrong(f"the key {show(key.value)} appears twice; remove one", node.start_mark)
            seen.add(key.value)
        return node


class UnusableError(ConstructorError):
    """YAML that can be parsed but is not used: it is too large, or not of a plain type."""


def wrong(problem: str, mark: Any) -> UnusableError:
    """The error for a problem at a place."""
    return UnusableError(problem=problem, problem_mark=mark)


def expanded_size(node: Any, known: dict[int, Size | None]) -> Size:
    """The size of a node; an error where it is too large or holds itself. ``known`` has None for nodes above it."""
    if id(node) in known:
        found = known[id(node)]
        if found is None:
            raise wrong("an anchor refers to itself; write its value out", node.start_mark)
        return found
    known[id(node)] = None
    size = Size(1, len(node.value) if isinstance(node.value, str) else 0, 1)
    for child in () if isinstance(node.value, str) else node.value:
        for part in child if isinstance(child, tuple) else (child,):
            more = expanded_size(part, known)
            size = Size(size.values + more.values, size.characters + more.characters, max(size.depth, 1 + more.depth))
    check_bounds(size, node.start_mark)
    known[id(node)] = size
    return size


def check_bounds(size: Size, mark: Any) -> None:
    """Raise where a size is more than settings can need."""
    if size.depth > MOST_DEPTH:
        raise wrong(f"more than {MOST_DEPTH} lists and mappings inside of each other; use fewer", mark)
    if size.values > MOST_VALUES:
        raise wrong(f"more than {MOST_VALUES:,} values, those of aliases included; use fewer", mark)
    if size.characters > MOST_CHARACTERS:
        raise wrong(f"more than {MOST_CHARACTERS:,} characters, those of aliases included; use fewer", mark)


def construct_string(loader: Any, node: Any) -> str:
    """A string; escapes in quotes can spell what no name, path or description can contain."""
    text: str = loader.construct_scalar(node)
    if "\0" in text or any("\ud800" <= one <= "\udfff" for one in text):
        raise wrong(f"{show(text)} has a character that no text can have; remove it", node.start_mark)
    return text


def typed_constructor(name: str) -> Callable[[Any, Any], Any]:
    """A constructor that refuses what does not look like its type, as in ``!!bool maybe``."""
    pattern, _, value_of = PLAIN_TYPES[name]

    def construct(loader: Any, node: Any) -> Any:
        if not re.search(pattern, node.value):
            raise wrong(f"{show(node.value)} is not of the type {name}; correct it", node.start_mark)
        return value_of(node.value)

    return construct


StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name, (_pattern, _first, _) in PLAIN_TYPES.items():
    StrictLoader.add_implicit_resolver(f"{TAG}{_name}", re.compile(_pattern), list(_first))
    StrictLoader.add_constructor(f"{TAG}{_name}", typed_constructor(_name))
StrictLoader.add_constructor(f"{TAG}str", construct_string)
