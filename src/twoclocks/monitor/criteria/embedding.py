"""Copies by an embedding: a network of yours maps a sample close to a training row."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.lazy import torch
from twoclocks.core.text import show
from twoclocks.monitor.cosine import CosineSearch, Form, Rows
from twoclocks.monitor.criteria.base import CRITERIA, Criterion, Matcher, Matches
from twoclocks.monitor.inputs import Shown, as_array, called, checked_integer, checked_number
from twoclocks.monitor.training_set import Kind, TrainingSet


@CRITERIA.register("embedding")
@dataclass(frozen=True, init=False)
class Embedding(Criterion):
    """A copy has an embedding whose cosine with that of a training row is above ``cosine_above``.

    ``function`` maps arrays (n, *shape), or a list of texts, to an array or tensor (n, features): SSCD, DINO, CLIP or a
    network of your own, which you load and put into evaluation mode. It is called with at most ``batch`` rows, without
    gradients; training rows and their forms by declared symmetries are embedded once. ``name`` is its name in reports.
    The threshold 0.5 is common for SSCD; other networks need their own, for example from held-out samples.
    """

    function: Callable[[Any], Any]
    cosine_above: float
    label: str
    batch: int
    kinds: ClassVar[frozenset[Kind]] = frozenset({"integers", "floats", "texts"})
    about: ClassVar[str] = "the cosine of its embedding, by your own function, with that of a training row is above 0.5"
    is_cosine: ClassVar[bool] = True
    data: ClassVar[str] = "photographs, audio, paraphrased text: whatever you have a network for"

    def __init__(
        self,
        function: Callable[[Any], Any] | None = None,
        cosine_above: float = 0.5,
        name: str | None = None,
        batch: int = 256,
    ) -> None:
        if not callable(function):
            fix = "create it with Embedding(function), where function maps rows (n, *shape) to (n, features)"
            raise UserError(f"copies: 'embedding' needs a function, and {show(function)} is none; {fix}")
        checked_number("cosine_above", cosine_above, 0, 1, "use a number above 0 and below 1")
        batch = checked_integer("batch", batch, 1)
        if name is not None and not isinstance(name, str):
            raise SettingError("name", Shown(name), "use a text")
        own = getattr(function, "__qualname__", type(function).__qualname__)
        values = {"function": function, "cosine_above": cosine_above, "label": name or own, "batch": batch}
        for field, value in values.items():
            object.__setattr__(self, field, value)

    @property
    def name(self) -> str:
        return f"copies by {self.label} with a cosine above {self.cosine_above:g}"

    def matcher(self, train: TrainingSet) -> Matcher:
        self.check_kind(train)
        known: list[Any] = [train.texts] if train.kind == "texts" else list(train.forms())
        vectors = [self.embedded(rows, "train") for rows in known]
        features = vectors[0].shape[1]
        forms: list[Form] = [each.__getitem__ for each in vectors]
        search = CosineSearch(forms, len(train), features)

        def match(samples: Any, device: str = "cpu") -> Matches:
            ours = self.embedded(samples, "samples")
            if ours.shape[1] != features:
                problem = f"{ours.shape[1]} features of the samples, {features} of the training rows"
                raise UserError(f"function: it returned {problem}; it must return the same number for each call")
            rows, cosines = search.search(ours, device)
            return Matches(cosines > self.cosine_above, rows, 1 - cosines)

        return match

    def embedded(self, rows: Any, what: str) -> Rows:
        """Embeddings (n, features) of all rows, computed in batches and checked."""
        parts: list[Rows] = []
        with torch.no_grad():
            for begin in range(0, len(rows), self.batch):
                part = rows[begin : begin + self.batch]
                own = copy(part)  # the function may write into what it gets
                found = as_array(called(self.function, "function", own), "function")
                self.check(found, len(part), f"{what} {begin} to {begin + len(part) - 1}")
                if parts and found.shape[1] != parts[0].shape[1]:
                    problem = f"{found.shape[1]} features for {what} {begin}, {parts[0].shape[1]} before"
                    raise UserError(f"function: it returned {problem}; it must return the same number for each call")
                parts.append(found)
        return np.concatenate(parts) if parts else np.zeros((0, 1))

    def check(self, found: Rows, number: int, rows: str) -> None:
        """Raise UserError where a missing or undefined embedding would silently count as 'not a copy'."""
        if found.ndim != 2 or len(found) != number or found.shape[1] == 0 or found.dtype.kind not in "iuf":
            expected = f"return numbers of shape ({number}, features)"
            raise UserError(f"function: it returned {found.dtype} of shape {found.shape} for {rows}; {expected}")
        if not np.isfinite(found).all():
            raise UserError(f"function: it returned NaN or infinity for {rows}; these rows cannot be compared")
        if not found.any(axis=1).all():
            raise UserError(f"function: it returned a vector of zeros for {rows}; it has no direction to compare")
