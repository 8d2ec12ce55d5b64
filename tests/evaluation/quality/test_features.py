"""Feature spaces: deterministic, on real digits in the right order of quality, and files that can be trusted."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from pictures import RESERVED, blurred, digits, noisy
from torch import Tensor

from twoclocks.core.config import build, to_mapping
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.plugins import import_file
from twoclocks.evaluation import EvaluationSettings
from twoclocks.evaluation.quality import (
    FEATURES,
    AutoencoderSpace,
    FeatureFile,
    Features,
    FeatureSpace,
    NetworkFeatures,
    PixelSpace,
    frechet_distance,
    load_features,
    save_features,
)
from twoclocks.evaluation.quality.autoencoder import decode, encode, trained
from twoclocks.evaluation.quality.features import PixelFeatures, principal_components, unit_images

SPACES: dict[str, FeatureSpace] = {"pixels": PixelSpace(), "autoencoder": AutoencoderSpace(steps=300)}


@cache
def fitted(name: str) -> Features:
    return SPACES[name].fit(digits()[0][:RESERVED])


@pytest.mark.parametrize("name", SPACES)
def test_frechet_distance_rises_with_blur_noise_and_missing_classes(name: str) -> None:
    pixels, classes = digits()[0][RESERVED:], digits()[1][RESERVED:]
    features = fitted(name)
    real, others, kinds = features(pixels[:600]), pixels[600:], classes[600:]

    def distance(images: Tensor) -> float:
        return float(frechet_distance(real, features(images)))

    floor = distance(others)
    ladders = {
        "blur": [blurred(others, sigma) for sigma in (0.5, 0.7, 1.0, 1.5)],
        "noise": [noisy(others, sigma) for sigma in (0.1, 0.2, 0.4, 0.8)],
        "missing classes": [others[kinds >= first].repeat(9, 1, 1, 1)[:600] for first in (1, 3, 5, 8)],
    }
    for kind, images in ladders.items():
        found = [floor, *map(distance, images)]
        assert found == sorted(found) and found[-1] > 5 * floor, f"{kind}: {found}"


@pytest.mark.parametrize("name", SPACES)
def test_features_are_fixed_floats_with_unit_variance_and_do_not_depend_on_batches(name: str) -> None:
    pixels, features = digits()[0], fitted(name)
    found = features(pixels)
    assert found.dtype == torch.float32 and found.shape[0] == 1797 and features.name == name
    assert float(found[:RESERVED].double().var(dim=0).mean()) == pytest.approx(1, rel=0.01)
    assert float(found[:RESERVED].mean(dim=0).abs().max()) < 1e-4
    assert torch.allclose(features(pixels[5:8]), found[5:8], atol=1e-5)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    state = torch.random.get_rng_state()
    again = SPACES[name].fit(pixels[:RESERVED])
    assert torch.get_num_threads() == 2 and torch.equal(torch.random.get_rng_state(), state)  # nothing else changes
    torch.set_num_threads(threads)
    assert again.digest == features.digest and len(features.digest) == 64
    other = AutoencoderSpace(steps=300, seed=1) if name == "autoencoder" else PixelSpace(components=8)
    assert other.fit(pixels[:RESERVED]).digest != features.digest
    with torch.inference_mode():
        assert not features(pixels[:2]).requires_grad


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 1, 1), (3, 70, 20), (1, 40, 40)])
def test_images_of_any_size_and_few_images_have_finite_features(shape: tuple[int, ...]) -> None:
    pixels = torch.randint(0, 256, (6, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for space in (PixelSpace(), AutoencoderSpace(steps=2)):
        for images in (pixels, torch.zeros_like(pixels)):  # equal images have no variance
            assert torch.isfinite(space.fit(images)(pixels)).all()


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_autoencoder_learns_to_restore_images_that_it_has_not_seen(noise: float) -> None:
    images = unit_images(digits()[0])
    seen, unseen = images[:RESERVED], images[RESERVED:]
    errors = {}
    for steps in (1, 200):
        weights = trained(seen, AutoencoderSpace(steps=steps, noise=noise))
        errors[steps] = float((decode(encode(unseen, weights), weights, (8, 8)) - unseen).square().mean())
    variance = float((unseen - seen.mean(dim=0)).square().mean())
    assert errors[200] < 0.5 * variance < variance < errors[1], (errors, variance)


def test_principal_components_are_the_same_from_either_matrix() -> None:
    x = torch.randn(12, 9, generator=torch.Generator().manual_seed(0)).double()
    x = x - x.mean(dim=0)
    expected = torch.linalg.svd(x).Vh[:4].T
    tall, wide = principal_components(x, 4), principal_components(torch.cat([x, torch.zeros(12, 7)], dim=1), 4)
    for found in (tall, wide[:9]):
        assert torch.allclose((found.T @ expected).abs(), torch.eye(4).double(), atol=1e-8)
    assert principal_components(x[:3] - x[:3].mean(dim=0), 64).shape == (9, 2)


def test_pixel_features_are_the_same_on_every_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another processor or library rounds differently, and returns some eigenvectors times −1."""
    pixels, eigh = digits()[0][:RESERVED], torch.linalg.eigh

    def otherwise(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        noise = torch.randn(matrix.shape, generator=torch.Generator().manual_seed(1), dtype=matrix.dtype)
        values, vectors = eigh(matrix * (1 + 1e-15 * (noise + noise.T)))
        return values, vectors * torch.where(noise[:1] < 0, -1.0, 1.0)

    expected = SPACES["pixels"].fit(pixels)
    monkeypatch.setattr(torch.linalg, "eigh", otherwise)
    assert SPACES["pixels"].fit(pixels).digest == expected.digest


@pytest.mark.parametrize("name", SPACES)
def test_a_file_holds_the_same_features_and_every_change_is_noticed(name: str, tmp_path: Path) -> None:
    path, features = tmp_path / "features.safetensors", fitted(name)
    save_features(features, path)
    loaded = load_features(path)
    assert loaded.digest == features.digest and torch.equal(loaded(digits()[0]), features(digits()[0]))
    data = path.read_bytes()
    for place in (3, 40, len(data) - 3, len(data) // 2):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(UserError, match=r"features\.safetensors: "):
            load_features(path)
    for content in (b"", data[:-1], b"PK\x03\x04 not tensors"):
        path.write_bytes(content)
        with pytest.raises(UserError, match="is no file of features; write it again"):
            load_features(path)


def test_tensors_of_another_network_are_refused(tmp_path: Path) -> None:
    features = fitted("pixels")
    assert isinstance(features, PixelFeatures)
    wrong = PixelFeatures((1, 8, 8), {"mean": torch.zeros(3), "components": torch.zeros(3, 2)})
    save_features(wrong, tmp_path / "wrong")
    with pytest.raises(UserError, match="its tensors are not those of the features 'pixels'"):
        load_features(tmp_path / "wrong")


def test_a_file_in_the_settings_has_its_sha256(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_features(fitted("pixels"), tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    space = FeatureFile(path="mine")
    assert Path(space.path).is_absolute() and len(space.sha256) == 64
    settings = build(EvaluationSettings, {"features": {"name": "file", "path": "mine"}})
    assert settings.features == space
    assert to_mapping(settings)["features"] == {"name": "file", "path": space.path, "sha256": space.sha256}
    assert space.fit(digits()[0][:5]).digest == fitted("pixels").digest
    with pytest.raises(SettingError, match=r"sha256: 'abc' is not allowed; the file .* or leave sha256 out"):
        FeatureFile(path="mine", sha256="abc")
    with pytest.raises(UserError, match=r"evaluation.features.path: .*cannot be read"):
        FeatureFile(path="not here")
    with pytest.raises(UserError, match=r"images: have the shape \(1, 4, 4\), the features are for \(1, 8, 8\)"):
        space.fit(torch.zeros(2, 1, 4, 4, dtype=torch.uint8))


def test_the_default_is_left_out_of_stored_settings() -> None:
    assert "features" not in to_mapping(EvaluationSettings())
    chosen = build(EvaluationSettings, {"features": "pixels"})
    assert to_mapping(chosen)["features"] == {"name": "pixels", "components": 64}
    assert build(EvaluationSettings, to_mapping(chosen)) == chosen


OWN = '''
from dataclasses import dataclass
import torch
from twoclocks.evaluation.quality import FEATURES, FeatureSpace, NetworkFeatures

@FEATURES.register("mean_colour")
@dataclass(frozen=True, kw_only=True)
class MeanColour(FeatureSpace):
    """The mean of each channel."""
    def fit(self, reserved):
        return NetworkFeatures("mean_colour", "0" * 64, lambda x: x.mean(dim=(2, 3)), side=16, low=0.0, high=1.0)
'''


def test_a_network_of_the_user_comes_from_an_imported_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FEATURES, "_members", dict(FEATURES._members))
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    import_file(str(tmp_path / "own.py"))
    space = build(EvaluationSettings, {"features": "mean_colour"}).features
    assert space is not None
    grey = torch.full((3, 1, 8, 8), 51, dtype=torch.uint8)
    found = space.fit(grey)(grey)  # 1 channel becomes 3, 0…255 becomes 0…1, 8×8 becomes 16×16
    assert torch.allclose(found, torch.full((3, 3), 0.2))
    with pytest.raises(UserError, match="flat: takes 4 channels, the images have 3"):
        NetworkFeatures("flat", "", lambda x: x, side=8, channels=4)(grey.expand(-1, 3, -1, -1))
    with pytest.raises(UserError, match=r"flat: the network returns \(3, 3, 8, 8\); return features \(3, d\)"):
        NetworkFeatures("flat", "", lambda x: x, side=8)(grey)
    with pytest.raises(UserError, match="'flat' is a network of your own; share the file"):
        save_features(NetworkFeatures("flat", "", lambda x: x, side=8), tmp_path / "x")


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_the_example_loads_a_torchscript_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FEATURES, "_members", dict(FEATURES._members))
    import_file(str(Path(__file__).parents[3] / "docs" / "examples" / "torchscript_features.py"))
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten()).eval()
    path = tmp_path / "network.pt"
    torch.jit.save(torch.jit.trace(network, torch.zeros(1, 3, 8, 8)), path)
    chosen = {"name": "torchscript", "path": str(path), "side": 8}
    space = build(EvaluationSettings, {"features": chosen}).features
    assert space is not None
    stored = to_mapping(EvaluationSettings(features=space))["features"]
    features = space.fit(digits()[0][:2])
    assert stored["sha256"] == features.digest
    images = digits()[0][:3].float().expand(-1, 3, -1, -1) / 127.5 - 1
    with torch.no_grad():
        assert torch.allclose(features(digits()[0][:3]), network(images), atol=1e-5)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(SettingError, match=r"features\.sha256"):
        build(EvaluationSettings, {"features": stored})
    with pytest.raises(SettingError, match="sha256"):
        space.fit(digits()[0][:2])  # it changed between the settings and the run
    with pytest.raises(SettingError, match="it cannot be read"):
        build(EvaluationSettings, {"features": {**chosen, "path": str(tmp_path / "gone.pt")}})


@pytest.mark.parametrize(
    "images",
    [torch.zeros(2, 1, 8, 8), torch.zeros(8, 8).byte(), torch.zeros(2, 2, 8, 8).byte(), torch.zeros(0, 1, 8, 8).byte()],
)
def test_what_are_no_images_is_named(images: Tensor) -> None:
    for space in SPACES.values():
        with pytest.raises(UserError, match=r"images: torch.* is not allowed; use uint8 of the shape \(n, 1 or 3"):
            space.fit(images)
