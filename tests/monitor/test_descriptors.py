"""A descriptor from a TorchScript file: its transform, copies by its cosine, and errors of one line."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import twoclocks as tc
from twoclocks.monitor.descriptors import load_descriptor

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 3, 40, 60), dtype=np.uint8)


class Pooled(nn.Module):
    """Means of 4 × 4 parts of each channel, and the height and width of the image that arrived."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = torch.tensor([[x.shape[2] / 100.0, x.shape[3] / 100.0]]).expand(x.shape[0], 2)
        return torch.cat([torch.nn.functional.adaptive_avg_pool2d(x, (4, 4)).flatten(1), size], dim=1)


class Pixels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


class Maps(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :1]


class Grey(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1] == 1, "one channel is needed"
        return x.flatten(1)


class NotANumber(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) * float("nan")


def scripted(folder: Path, network: nn.Module) -> Path:
    path = folder / f"{type(network).__name__.lower()}.torchscript.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(network).save(str(path))
    return path


def as_published(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resized by PIL, then normalised as images of ImageNet, one channel at a time."""
    channels = []
    for channel, mean, std in zip(image, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), strict=True):
        resized = Image.fromarray(channel.astype(np.float32)).resize((width, height), Image.Resampling.BILINEAR)
        channels.append((np.asarray(resized) / 255 - mean) / std)
    return np.stack(channels)


@pytest.mark.parametrize(
    ("options", "height", "width"),
    [({}, 288, 432), ({"edge": 20}, 20, 30), ({"edge": 32, "square": True}, 32, 32)],
)
def test_images_are_resized_and_normalised_as_published(
    tmp_path: Path, options: dict[str, int], height: int, width: int
) -> None:
    found = load_descriptor(scripted(tmp_path, Pixels()), **options)(IMAGES)  # type: ignore[arg-type]
    expected = np.stack([as_published(image, height, width) for image in IMAGES]).reshape(len(IMAGES), -1)
    assert found.shape == expected.shape and np.abs(found.numpy() - expected).max() < 1e-3


def test_floats_from_minus_one_to_one_are_the_same_images(tmp_path: Path) -> None:
    descriptor = load_descriptor(scripted(tmp_path, Pooled()))
    floats = torch.as_tensor(IMAGES) / 127.5 - 1
    assert torch.allclose(descriptor(IMAGES), descriptor(floats), atol=1e-4)
    assert torch.equal(descriptor(IMAGES)[:, -2:], torch.tensor([[2.88, 4.32]]).expand(6, 2))


def test_the_monitor_counts_copies_by_its_cosine_and_knows_the_file_again(tmp_path: Path) -> None:
    path = scripted(tmp_path, Pooled())
    descriptor = load_descriptor(path, edge=32)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert descriptor.name == f"pooled.torchscript.pt (SHA-256 {digest[:12]}…, shorter edge 32 pixels)"
    train, new = IMAGES[:3], 255 - IMAGES[:3]
    held_out = RNG.integers(0, 256, (30, 3, 40, 60), dtype=np.uint8)
    criterion = tc.monitor.Embedding(descriptor, 0.99, name=descriptor.name)
    monitor = tc.Monitor(train, held_out=held_out, copies=criterion, policy="never")
    noisy = np.clip(train + RNG.normal(0, 4, train.shape), 0, 255).astype(np.uint8)
    decision = monitor.observe(1, np.concatenate([noisy, new]))
    assert sorted(decision.copies.samples.tolist()) == [0, 1, 2] and sorted(decision.copies.rows.tolist()) == [0, 1, 2]
    vectors = [descriptor(images).double() for images in (np.concatenate([noisy, new]), train)]
    ours, theirs = (one / one.norm(dim=1, keepdim=True) for one in vectors)
    nearest = float((ours @ theirs.T).max(1).values.mean())
    assert decision.similarity == pytest.approx(nearest, abs=1e-6) and decision.as_dict()["similarity"] > 0
    monitor.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert descriptor.name in page and f"<td>{decision.similarity:.3g}</td>" in page
    other = tc.monitor.Embedding(load_descriptor(path, edge=24), 0.99, name=load_descriptor(path, edge=24).name)
    with pytest.raises(tc.UserError, match="its copies is"):
        tc.Monitor(train, held_out=held_out, copies=other).load_state(monitor.state())


def test_a_file_that_is_missing_or_no_torchscript_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "words.pt").write_text("not a network")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "weights.pt")
    fix = "give one that torch.jit.save wrote, such as sscd_disc_mixup.torchscript.pt"
    for name in ("words.pt", "weights.pt"):
        with pytest.raises(tc.UserError) as caught:
            load_descriptor(tmp_path / name)
        text = str(caught.value)
        assert text.startswith(f"descriptor: '{tmp_path / name}' is not a TorchScript file (") and text.endswith(fix)
    for missing in (tmp_path / "none.pt", tmp_path, ""):
        with pytest.raises(tc.UserError) as caught:
            load_descriptor(missing)
        fix = "give a TorchScript file, such as sscd_disc_mixup.torchscript.pt"
        assert str(caught.value).startswith("descriptor: '") and str(caught.value).endswith(fix)


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (Maps(), r"returned shape \(2, 1, 288, 288\) for 2 images; give one that returns .* \(n, features\)"),
        (NotANumber(), r"returned NaN or infinity for 2 images; give one that returns finite numbers"),
        (Grey(), r"failed on two images \(.*one channel is needed.*\); give a network that maps images"),
    ],
)
def test_a_network_with_another_output_is_one_line(tmp_path: Path, network: nn.Module, problem: str) -> None:
    path = scripted(tmp_path, network)
    with pytest.raises(tc.UserError, match=f"^descriptor: '{path}' {problem}"):
        load_descriptor(path)


def test_images_of_another_shape_and_settings_out_of_range_are_named(tmp_path: Path) -> None:
    path = scripted(tmp_path, Pooled())
    with pytest.raises(tc.UserError, match=r"^images: uint8 of shape \(6, 40, 60\) is not allowed; give RGB images"):
        load_descriptor(path)(IMAGES[:, 0])
    with pytest.raises(tc.UserError, match=r"^edge: 0 is not allowed"):
        load_descriptor(path, edge=0)
    with pytest.raises(tc.UserError, match=r"^square: 'yes' is not allowed"):
        load_descriptor(path, square="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "images",
    [IMAGES.astype(np.float32), IMAGES.astype(np.uint16) * 200, IMAGES.astype(np.int64) - 300, np.float32(IMAGES) / 90],
)
def test_pixels_of_another_range_are_refused(tmp_path: Path, images: np.ndarray) -> None:
    """They would all become black or white, and so alike."""
    with pytest.raises(tc.UserError, match=r"images: pixels from .* are not allowed; give integers from 0 to 255"):
        load_descriptor(scripted(tmp_path, Pooled()))(images)


def test_floats_that_are_never_negative_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    describe = load_descriptor(scripted(tmp_path, Pooled()))
    describe(np.float32(IMAGES) / 127.5 - 1)
    assert not caplog.records
    describe(np.float32(IMAGES) / 255)
    assert "not as 0 to 1" in caplog.text
