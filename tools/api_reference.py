"""The API reference as Markdown, from the docstrings and settings of everything public.

Public is what ``twoclocks.__all__`` names, and what ``__all__`` of each folder in it names. ``tools/build_site.py``
writes these pages; they are not stored in the repository.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from docparts.formatting import as_table

import twoclocks as tc
from twoclocks.core.config import Settings, describe
from twoclocks.core.registry import Registry


def reference_pages() -> dict[str, str]:
    """The Markdown text of every page of the reference, by file name."""
    public = {name: getattr(tc, name) for name in sorted(tc.__all__, key=str.lower) if not name.startswith("__")}
    folders = {name: thing for name, thing in public.items() if isinstance(thing, ModuleType)}
    names = {name: thing for name, thing in public.items() if name not in folders}
    rows = [
        {"module": f"[`tc.{name}`]({name}.md)", "purpose": summary(module), "names": str(len(module.__all__))}
        for name, module in folders.items()
    ]
    start = ["# API reference", "`import twoclocks as tc` gives all of these names.", as_table(rows)]
    pages = {"index.md": "\n\n".join([*start, *(entry(f"tc.{name}", thing) for name, thing in names.items())])}
    for name, module in folders.items():
        members = {key: getattr(module, key) for key in sorted(module.__all__, key=str.lower)}
        parts = (entry(f"tc.{name}.{key}", member) for key, member in members.items())
        pages[f"{name}.md"] = "\n\n".join([f"# tc.{name}", docstring(module), *parts])
    return {name: f"{text}\n" for name, text in pages.items()}


def entry(name: str, thing: Any) -> str:
    """One public name: what it is, how it is called, what its docstring says."""
    if isinstance(thing, type):
        return class_entry(name, thing)
    if isinstance(thing, Registry):
        rows = [{"name": f"`{key}`", "what it is": summary(cls)} for key, cls in thing.items()]
        return (
            f"## {name}\n\nA registry: `{name.rpartition('.')[2]}.create(name, …)` makes a member.\n\n{as_table(rows)}"
        )
    if inspect.isroutine(thing):
        return f"## {name}\n\n{signature(name, thing)}\n\n{docstring(thing)}"
    if isinstance(thing, ModuleType):
        return f"## {name}\n\nA module. {docstring(thing)}"
    return f"## {name}\n\nA constant: `{thing!r}`."


def class_entry(name: str, cls: type) -> str:
    """A class with its fields or settings, and with the methods that it defines itself."""
    parts = [f"## {name}"]
    if issubclass(cls, Settings):
        rows = [
            {"setting": f"`{key}`", "type": f"`{kind}`", "default": str(value), "what it is": help}
            for key, kind, value, help in describe(cls)
        ]
        parts += [docstring(cls), *([as_table(rows)] if rows else [])]
    else:
        parts += [signature(name, cls), docstring(cls, own=is_dataclass(cls))]
    parts += [method_entry(key, member) for key, member in methods(cls)]
    return "\n\n".join(part for part in parts if part)


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties with a docstring, in the order of the source."""
    for key, member in vars(cls).items():
        function = getattr(member, "__func__", member)
        shown = inspect.isroutine(function) or isinstance(member, property | cached_property)
        if shown and member.__doc__ and not key.startswith("_"):
            yield key, member


def method_entry(name: str, member: Any) -> str:
    """A method with its call, or a property, and what its docstring says."""
    if isinstance(member, property | cached_property):
        return f"**{name}** (property). {docstring(member)}"
    return f"{signature(name, getattr(member, '__func__', member))}\n\n{docstring(member)}"


def signature(name: str, thing: Any) -> str:
    """How a function or class is called, on one line or with one argument per line."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):  # written in C, or a protocol
        return ""
    returns = "" if isinstance(thing, type) or found.return_annotation is found.empty else found.return_annotation
    arguments, keyword_only = [], False
    for one in found.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not keyword_only:
            arguments.append("*")
            keyword_only = True
        arguments.append(argument(one))
    end = f" -> {kind_of(returns)}" if returns else ""
    line = f"{name}({', '.join(arguments)}){end}"
    if len(line) > 100:
        line = f"{name}(\n    " + ",\n    ".join(arguments) + f",\n){end}"
    return f"```python\n{line}\n```"


def argument(one: inspect.Parameter) -> str:
    """One argument with its type and default."""
    star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    text = star + one.name
    if one.annotation is not one.empty:
        text += f": {kind_of(one.annotation)}"
    if one.default is not one.empty:
        default = repr(one.default)
        text += f" = {'…' if default.startswith('<') or ' at 0x' in default else default}"
    return text


def kind_of(annotation: Any) -> str:
    """A type as the source writes it."""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def summary(thing: Any) -> str:
    """The first line of a docstring."""
    return docstring(thing).split("\n")[0]


def docstring(thing: Any, own: bool = False) -> str:
    """A docstring as Markdown: examples become code blocks, double backquotes single ones."""
    text = inspect.getdoc(thing) or ""
    if own and text.startswith(f"{thing.__name__}("):  # what dataclass() writes where there is no docstring
        return ""
    lines: list[str] = []
    in_example = False
    for line in text.replace("``", "`").split("\n"):
        starts = line.lstrip().startswith(">>>")
        if starts and not in_example:
            lines += ["", "```pycon"]
            in_example = True
        elif in_example and not line.strip():
            lines.append("```")
            in_example = False
        lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, "```"] if in_example else lines)).strip()
