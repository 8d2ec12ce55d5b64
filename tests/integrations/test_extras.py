"""A package that is not installed is one line with the command that installs it."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import twoclocks as tc
from twoclocks.integrations.extras import missing_extra
from twoclocks.integrations.trackers import TRACKERS

ADAPTERS = {"lightning": "lightning", "transformers": "transformers", "accelerate": "diffusers"}


def uninstall(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the import of a package fail as if it were not there, until the end of the test."""
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)  # it has imported TensorBoard
    monkeypatch.setitem(sys.modules, package, None)


def line(package: str, extra: str) -> str:
    return f"{package}: is not installed; run pip install 'twoclocks[{extra}]'"


@pytest.mark.parametrize("package", ADAPTERS)
def test_a_missing_framework_is_one_line(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(package, monkeypatch)
    monkeypatch.delitem(sys.modules, f"twoclocks.integrations.{package}", raising=False)
    with pytest.raises(tc.UserError) as caught:
        import_module(f"twoclocks.integrations.{package}")
    assert str(caught.value) == line(package, ADAPTERS[package]) and caught.value.__suppress_context__


@pytest.mark.parametrize("name", TRACKERS.names())
def test_a_missing_tracker_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uninstall(name, monkeypatch)
    with pytest.raises(tc.UserError) as caught:
        TRACKERS.create(name)
    assert str(caught.value) == line(name, "trackers")


@pytest.mark.parametrize("missing", ["lightning.pytorch", "torchmetrics"])
def test_a_broken_package_says_why(missing: str) -> None:
    text = str(missing_extra("lightning", "lightning", ImportError(f"cannot import {missing}", name=missing)))
    assert ("is not installed" in text) == (missing != "torchmetrics") and text.endswith("'twoclocks[lightning]'")
