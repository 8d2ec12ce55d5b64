"""Values that people give by mistake where rows, steps, settings, functions or states are expected."""

from __future__ import annotations

import array
from collections import OrderedDict, UserDict, UserList
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch

ROWS = 6  # of the good training set, all different
BITS = np.array([[1, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 1]])
FLOATS = np.random.default_rng(0).normal(size=(ROWS, 4))
TEXTS = [
    f"the {a} cat sat on the {b} mat"
    for a, b in zip(["red", "green", "blue", "old", "new", "odd"], range(ROWS), strict=True)
]
IMAGES = np.random.default_rng(1).normal(size=(ROWS, 32, 32))
GOOD = {"bits": BITS, "floats": FLOATS, "texts": TEXTS, "images": IMAGES}
COPIES = {  # the same bits in another form: all of these must be found to be copies
    "list": BITS.tolist(),
    "tuples": tuple(map(tuple, BITS.tolist())),
    "bool": BITS.astype(bool),
    "uint8": BITS.astype(np.uint8),
    "tensor": torch.from_numpy(BITS),
    "list of arrays": list(BITS),
    "list of tensors": list(torch.from_numpy(BITS)),
    "list of lists of tensors": [[torch.tensor(int(b)) for b in row] for row in BITS],
    "int8": torch.from_numpy(BITS).to(torch.int8),
    "not contiguous": np.asfortranarray(BITS),
    "reversed twice": BITS[:, ::-1][:, ::-1],
    "transposed": torch.from_numpy(BITS.T.copy()).T,
    "big-endian": BITS.astype(">i4"),
    "memoryview": memoryview(np.ascontiguousarray(BITS)),
    "bytearrays": [bytearray(row.tolist()) for row in BITS],
    "bytes": [bytes(row.tolist()) for row in BITS],
    "arrays of array": [array.array("i", row.tolist()) for row in BITS],
    "pandas": pandas.DataFrame(BITS),
    "objects": BITS.astype(object),
    "masked without mask": np.ma.array(BITS),
    "uint64": BITS.astype(np.uint64),
    "matrix": np.asmatrix(BITS),
    "user list": UserList(BITS.tolist()),
    "ranges": [range(row[0], row[0] + 1) for row in BITS][:0] or BITS,
    "flat 2d rows": BITS.reshape(ROWS, 2, 2),
    "read-only": np.frombuffer(BITS.tobytes(), dtype=BITS.dtype).reshape(BITS.shape),
    "bool tensor": torch.from_numpy(BITS).bool(),
    "subclass": BITS.view(type("Own", (np.ndarray,), {})),
    "parameter of ints": [row.tolist() for row in torch.from_numpy(BITS)],
}
NEAR = {  # the same floats in another form
    "float32": FLOATS.astype(np.float32),
    "tensor": torch.from_numpy(FLOATS),
    "with grad": torch.from_numpy(FLOATS).requires_grad_(),
    "bfloat16": torch.from_numpy(FLOATS).bfloat16(),
    "half": torch.from_numpy(FLOATS).half(),
    "list": FLOATS.tolist(),
    "list with grad": [row.clone().requires_grad_() for row in torch.from_numpy(FLOATS)],
    "list of bfloat16": list(torch.from_numpy(FLOATS).bfloat16()),
    "parameter": torch.nn.Parameter(torch.from_numpy(FLOATS)),
    "longdouble": FLOATS.astype(np.longdouble),
    "pandas": pandas.DataFrame(FLOATS),
    "decimals": [[Decimal(v) for v in row] for row in FLOATS.tolist()],
    "big-endian": FLOATS.astype(">f8"),
}


class Hostile:
    """An object of which every question is an error."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __getitem__(self, place: Any) -> Any:
        raise RuntimeError("no items")

    def __array__(self, *a: Any, **k: Any) -> Any:
        raise RuntimeError("no array")

    def __repr__(self) -> str:
        return "hostile"


def odd_rows() -> dict[str, Any]:
    """What is not rows, or not rows of a kind that can be compared; some of it may be accepted by a monitor."""
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    deep: Any = 0
    for _ in range(100):
        deep = [deep]
    huge = np.lib.stride_tricks.as_strided(np.zeros(1), shape=(2, 2**40), strides=(0, 0))
    return {
        "None": None,
        "zero": 0,
        "float": 1.5,
        "nan": float("nan"),
        "true": True,
        "text": "abc",
        "bytes": b"abc",
        "ellipsis": ...,
        "type": int,
        "function of one": lambda x: x,
        "object": object(),
        "hostile": Hostile(),
        "path": Path("x"),
        "complex number": 1j,
        "empty list": [],
        "empty rows": [[], []],
        "empty array": np.zeros(0),
        "no rows": np.zeros((0, 4)),
        "no columns": np.zeros((4, 0)),
        "0-d": np.array(1),
        "0-d tensor": torch.tensor(1.0),
        "1-d": np.arange(4),
        "1-d list": [0, 1, 2],
        "wide": np.zeros((2, 5)),
        "ragged": [[0, 1, 1, 0], [0, 1]],
        "ragged with empty": [[0, 1, 1, 0], []],
        "ragged floats": [[0.5, 1], [0.5]],
        "ragged first": [[], [1, 2]],
        "nested": [[[0], [1, 2]]],
        "Nones": [None, None],
        "a None": [[0, 1, 1, None]],
        "strings": [["a", "b", "c", "d"]],
        "mixed": [[0, 1, 1, 0], "abc"],
        "text and bytes": ["abc", b"abc"],
        "empty texts": ["", ""],
        "texts and None": ["abc", None],
        "numbers as texts": np.array([["0", "1", "1", "0"]]),
        "bytes array": np.array([[b"0", b"1", b"1", b"0"]]),
        "object array": np.array([[0, "a", None, 1.5]], dtype=object),
        "dates": np.zeros((2, 4), "M8[s]"),
        "durations": np.zeros((2, 4), "m8[s]"),
        "complex": np.zeros((2, 4), complex),
        "complex tensor": torch.zeros(2, 4, dtype=torch.complex64),
        "records": np.zeros(3, dtype=[("a", int), ("b", float)]),
        "nans": np.full((2, 4), np.nan),
        "infinite": np.full((2, 4), np.inf),
        "a nan": [[0.0, 1, 1, float("nan")]],
        "nan tensor": torch.full((2, 4), float("nan")),
        "meta": torch.zeros(2, 4, device="meta"),
        "meta list": [torch.zeros(4, device="meta")],
        "sparse": torch.eye(4).to_sparse(),
        "sparse csr": torch.eye(4).to_sparse_csr(),
        "huge ints": [[2**80, 0, 0, 0]],
        "below 0 and huge": [[-1, 2**64 - 1, 0, 0]],
        "huge floats": [[1e308] * 4, [-1e308] * 4],
        "tiny floats": [[5e-324] * 4] * 2,
        "generator": (row for row in BITS.tolist()),
        "iterator": iter(BITS.tolist()),
        "map": map(list, BITS.tolist()),
        "zip": zip(*BITS.tolist(), strict=True),
        "range": range(4),
        "dict": {"a": [0, 1, 1, 0]},
        "dict of rows": dict(enumerate(BITS.tolist())),
        "ordered": OrderedDict(a=1),
        "user dict": UserDict(a=[1]),
        "set": {0, 1},
        "frozen set": frozenset({(0, 1, 1, 0)}),
        "keys": {"a": 1}.keys(),
        "series": pandas.Series([0, 1, 1, 0]),
        "empty frame": pandas.DataFrame(),
        "frame of objects": pandas.DataFrame({"a": ["x"], "b": [1]}),
        "frame with missing": pandas.DataFrame({"a": [1.0, None], "b": [1.0, 2.0], "c": [1.0, 2.0], "d": [0.0, 1.0]}),
        "categories": pandas.DataFrame({"a": pandas.Categorical(["x"])}),
        "masked": np.ma.array(BITS, mask=BITS > 0),
        "masked all": np.ma.masked_all((2, 4)),
        "masked float": np.ma.array([[0.0, 1, 1, 0]], mask=[[1, 0, 0, 0]]),
        "cyclic": cyclic,
        "deep": deep,
        "huge view": huge,
        "fractions": [[Fraction(1, 2)] * 4],
        "memoryview of floats": memoryview(np.zeros((2, 4))),
        "memoryview 1-d": memoryview(b"abcd"),
        "quantized": torch.quantize_per_tensor(torch.eye(4), 0.1, 0, torch.qint8),
        "nested tensor": torch.nested.nested_tensor([torch.zeros(4), torch.zeros(3)]),
        "float8": torch.zeros(2, 4).to(torch.float8_e4m3fn),
        "5-d": np.zeros((2, 1, 2, 2, 1)),
        "32-d": np.zeros((2,) + (1,) * 30 + (4,)),
        "module": torch.nn.Linear(2, 2),
        "void": np.zeros((2, 4), "V3"),
        "str array 0": np.array([], dtype=str),
        "tensor list ragged": [torch.zeros(4), torch.zeros(3)],
        "tensors and lists": [torch.zeros(4), [0, 0, 0, 0]],
        "bool and float": [[True, 0.5, 1, 0]],
        "exception": ValueError("x"),
    }


STEPS: dict[str, Any] = {
    "negative": -1,
    "float": 1.5,
    "whole float": 1.0,
    "nan": float("nan"),
    "inf": float("inf"),
    "true": True,
    "false": False,
    "text": "1",
    "None": None,
    "bytes": b"1",
    "complex": 1j,
    "list": [1],
    "array": np.array(1),
    "array of one": np.array([1]),
    "numpy": np.int64(3),
    "unsigned": np.uint8(3),
    "tensor": torch.tensor(3),
    "float tensor": torch.tensor(3.0),
    "huge": 2**70,
    "far": 2**62,
    "numpy bool": np.bool_(True),
    "decimal": Decimal(3),
    "fraction": Fraction(3),
    "object": object(),
    "hostile": Hostile(),
    "date": np.datetime64("2020"),
    "numpy float": np.float32(2.0),
}


def wrong_functions() -> dict[str, Any]:
    """Functions in the place of ``valid=``, a symmetry, a distance or an embedding, that fail or return nonsense."""

    def raises(*given: Any) -> Any:
        raise KeyError("inside of a function")

    def returns(value: Any) -> Any:
        return lambda *given: value

    constant = {name: returns(value) for name, value in odd_rows().items()}
    return {
        **constant,
        "raises": raises,
        "no arguments": lambda: 1,
        "ones": lambda x, *_: np.ones(len(x)),
        "too many": lambda x, *_: np.ones(len(x) + 1),
        "twos": lambda x, *_: np.full(len(x), 2),
        "column": lambda x, *_: np.ones((len(x), 1)),
        "same": lambda x, *_: x,
        "first": lambda x, *_: x[:1],
        "transposed": lambda x, *_: np.asarray(x).T,
        "shorter": lambda x, *_: [r[:1] for r in x],
        "floats of it": lambda x, *_: np.asarray(x) * 1.5,
        "objects of it": lambda x, *_: np.asarray(x, dtype=object),
        "nans of it": lambda x, *_: np.asarray(x) * np.nan,
        "list of bools": lambda x, *_: [True] * len(x),
        "tensor of bools": lambda x, *_: torch.ones(len(x), dtype=torch.bool),
        "not a function": 5,
        "name": "rotate",
        "unknown": "nonsense",
        "type": str,
        "bound": "abc".join,
    }


SETTINGS: dict[str, Any] = {
    "None": None,
    "zero": 0,
    "negative": -1,
    "large": 10**9,
    "huge": 2**80,
    "half": 0.5,
    "one": 1.0,
    "nan": float("nan"),
    "inf": float("inf"),
    "text": "1",
    "bytes": b"1",
    "true": True,
    "list": [1],
    "array": np.array([1, 2]),
    "tensor": torch.tensor(0.5),
    "complex": 1j,
    "object": object(),
    "hostile": Hostile(),
    "function": len,
    "decimal": Decimal("0.5"),
    "numpy": np.float32(0.5),
    "numpy integer": np.int64(2),
}
