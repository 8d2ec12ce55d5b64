"""The U-Net of images: diffusers' outputs with the same weights, published sizes, dropout without a generator."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from twoclocks import models, objectives
from twoclocks.core.errors import SettingError
from twoclocks.models.dropout import RowDropout, keep_mask, row_keys
from twoclocks.models.unet2d import UNet2dSettings
from twoclocks.testing import check_model
from twoclocks.testing.contracts import randomised

SMALL = {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": [2], "heads": 2}
SHAPE = (1, 4, 6)


def settings(**change: object) -> UNet2dSettings:
    made = models.create("unet2d", **{**SMALL, **change})
    assert isinstance(made, UNet2dSettings)
    return made


@pytest.mark.parametrize(("size", "parameters"), [("iDDPM", 52_546_438), ("P2", 209_983_238), ("P2 large", 461914118)])
def test_published_sizes_have_their_published_parameter_counts(size: str, parameters: int) -> None:
    """iDDPM's network for CIFAR-10 has 52.5 M parameters, those of P2 have 210 M and 462 M."""
    with torch.device("meta"):
        network = UNet2dSettings.published()[size].build((3, 32, 32), 256)
    assert models.parameter_count(network) == parameters


@pytest.mark.slow
def test_contract() -> None:
    check_model(settings(width=16), (2, 4, 6), 2, objectives.EDM(), steps=120)


def copied(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy the weights of our network into diffusers' ``UNet2DModel``."""
    found: dict[str, Tensor] = {}

    def put(name: str, layer: nn.Module) -> None:
        found.update({f"{name}.{key}": value for key, value in layer.state_dict().items()})

    def put_stage(name: str, stage: nn.Module, resize: str) -> None:
        for index, (block, attention) in enumerate(zip(stage.residuals, stage.attentions, strict=True)):  # type: ignore[call-overload]
            parts = {"norm1": block.norm_1, "conv1": block.conv_1, "time_emb_proj": block.modulation}
            parts |= {"norm2": block.norm_2, "conv2": block.conv_2, "conv_shortcut": block.shortcut}
            for part, layer in parts.items():
                put(f"{name}.resnets.{index}.{part}", layer)
            if not isinstance(attention, nn.Identity):
                place = f"{name}.attentions.{index}"
                put(f"{place}.group_norm", attention.norm)
                put(f"{place}.to_out.0", attention.project)
                for key, value in attention.query_key_value.state_dict().items():
                    for part, piece in zip("qkv", value.chunk(3), strict=True):
                        found[f"{place}.to_{part}.{key}"] = piece
        if stage.resize is not None:
            put(f"{name}.{resize}.0.conv", stage.resize)  # type: ignore[arg-type]

    put("conv_in", ours.embed)  # type: ignore[arg-type]
    put("time_embedding.linear_1", ours.noise_embedding.layers[0])  # type: ignore[index, union-attr, arg-type]
    put("time_embedding.linear_2", ours.noise_embedding.layers[2])  # type: ignore[index, union-attr, arg-type]
    for level, stage in enumerate(ours.down):  # type: ignore[arg-type]
        put_stage(f"down_blocks.{level}", stage, "downsamplers")
    put_stage("mid_block", ours.middle, "")  # type: ignore[arg-type]
    for level, stage in enumerate(ours.up):  # type: ignore[arg-type]
        put_stage(f"up_blocks.{level}", stage, "upsamplers")
    put("conv_norm_out", ours.norm)  # type: ignore[arg-type]
    put("conv_out", ours.head)  # type: ignore[arg-type]
    theirs.load_state_dict(found)  # strict: no weight is left out on either side


@pytest.mark.parametrize("labels", ["levels", "log sigma"])
def test_outputs_are_those_of_diffusers_with_the_same_weights(labels: str) -> None:
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    chosen = settings(width=32, multipliers=[1, 2, 2], blocks=2, attention=[8, 4], heads=4, variance=True)
    ours = randomised(chosen, (3, 16, 16), 256)
    theirs = diffusers.UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=6,
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(32, 64, 64),
        layers_per_block=2,
        attention_head_dim=16,
        norm_num_groups=32,
        attn_norm_num_groups=32,  # of the middle, which with scale_shift has none otherwise
        resnet_time_scale_shift="scale_shift",
    )
    copied(ours, theirs)
    x = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    label = torch.tensor([0.0, 411.25, 999.75] if labels == "levels" else [-1.55, 0.0, 1.1])
    with torch.no_grad():
        assert float((ours(x, label) - theirs(x, label).sample).abs().max()) < 1e-5 * float(ours(x, label).abs().max())


def test_a_fresh_network_returns_zero_and_keeps_or_doubles_the_channels() -> None:
    x, label = torch.randn(3, *SHAPE), torch.randn(3)
    plain, doubled = settings().build(SHAPE, 2)(x, label), settings(variance=True).build(SHAPE, 2)(x, label)
    assert plain.shape == x.shape and doubled.shape == (3, 2, 4, 6) and not bool(plain.any() or doubled.any())


def test_outputs_depend_on_every_pixel_on_the_label_and_on_no_other_row() -> None:
    network = randomised(settings(), SHAPE, 2)
    x, label = torch.randn(2, *SHAPE, requires_grad=True), torch.zeros(2, requires_grad=True)
    out = network(x, label)
    out[0, 0, 0, 0].backward()
    assert x.grad is not None and bool((x.grad[0] != 0).all()) and not bool(x.grad[1].any())
    assert label.grad is not None and float(label.grad[0].abs()) > 0 and float(label.grad[1]) == 0
    shared = network(x, torch.zeros(1).expand(2))
    assert torch.allclose(shared, out, atol=1e-6)


def test_settings_that_do_not_fit_are_refused_with_the_fix() -> None:
    with pytest.raises(SettingError, match=r"multipliers.*6×6 cannot be halved 2 times; use fewer"):
        settings(multipliers=[1, 1, 1]).check_shape((1, 6, 6))
    with pytest.raises(SettingError, match=r"attention: 16.*heights of the network are 28, 14"):
        settings(attention=[16]).check_shape((1, 28, 28))
    with pytest.raises(SettingError, match=r"heads: 3.*16 channels at the lowest"):
        settings(heads=3)
    with pytest.raises(SettingError, match=r"heads: 16.*8 channels at height 4"):
        settings(heads=16, attention=[4]).check_shape(SHAPE)
    with pytest.raises(SettingError, match=r"width: 7.*even"):
        settings(width=7)
    with pytest.raises(SettingError, match="multipliers"):
        settings(multipliers=[])


def test_dropout_masks_are_random_fresh_and_differ_between_layers_and_rows() -> None:
    x = torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    keys, shape, rate = row_keys(x), torch.Size((64, 16, 8, 8)), 0.3
    moved = x.clone()
    moved[:, 0, 0, 0] = torch.nextafter(moved[:, 0, 0, 0], torch.tensor(torch.inf))
    drawn = [(keys, 0), (keys, 1), (row_keys(moved), 0)]
    masks = [keep_mask(key, shape, salt, rate) for key, salt in drawn]
    total = float(shape.numel())
    spread = 4 * (rate * (1 - rate) / total) ** 0.5
    for mask in masks:
        assert abs(float(mask.double().mean()) - (1 - rate)) < spread
        assert float(mask.double().mean(dim=0).std()) == pytest.approx((rate * (1 - rate) / 64) ** 0.5, rel=0.1)
        assert float(mask.double().flatten(1).mean(dim=1).std()) == pytest.approx((rate * 0.7 / 1024) ** 0.5, rel=0.3)
    pairs = [(masks[0], masks[1]), (masks[0], masks[2]), (masks[0], masks[0].roll(1, dims=0))]
    pairs += [(masks[0], masks[0].roll(1, dims=axis)) for axis in (1, 2, 3)]
    for one, other in pairs:
        together = ((one.double() - 0.7) * (other.double() - 0.7)).mean() / (rate * (1 - rate))
        assert abs(float(together)) < 5 / total**0.5


def test_dropout_keeps_the_mean() -> None:
    """Entries are 0 or 1/(1 − rate)."""
    x = torch.ones(200, 100)
    found = RowDropout(0.3, salt=0)(x, row_keys(torch.randn(200, 5, generator=torch.Generator().manual_seed(0))))
    assert found.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert float(found.mean()) == pytest.approx(1, abs=4 * math.sqrt(0.3 / 0.7 / x.numel()))


def test_dropout_needs_no_generator_and_is_off_in_evaluation() -> None:
    network = randomised(settings(dropout=0.5), SHAPE, 2).requires_grad_(False)
    x, label = torch.randn(4, *SHAPE), torch.zeros(4)
    torch.manual_seed(1)
    first = network(x, label)
    torch.manual_seed(2)
    assert torch.equal(first, network(x, label)) and torch.allclose(first[2:], network(x[2:], label[2:]), atol=1e-6)
    twin = copy.deepcopy(network).eval()
    assert torch.allclose(twin(x, label), randomised(settings(), SHAPE, 2)(x, label), atol=1e-6)
    assert float((first - twin(x, label)).abs().max()) > 1e-3


def test_bfloat16_copies_of_the_weights_give_nearly_the_same_outputs_and_gradients() -> None:
    network = randomised(settings(width=16), SHAPE, 2)
    x, label = torch.randn(4, *SHAPE), torch.randn(4)
    found = []
    for fast in (False, True):
        network.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=fast):
            out = network(x, label)
        out.square().sum().backward()
        assert out.dtype == torch.float32
        gradients = [parameter.grad.flatten() for parameter in network.parameters() if parameter.grad is not None]
        found.append((out.detach(), torch.cat(gradients)))
    for exact, rounded in zip(*found, strict=True):  # over six seeds: outputs 0.011 to 0.013, gradients 0.029 to 0.039
        assert 0 < float((exact - rounded).norm() / exact.norm()) < 0.08


def test_keys_of_a_further_axis_are_those_of_its_parts() -> None:
    """Runs that are trained together compute their keys at once, whatever axis they lie along."""
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    apart = torch.stack([row_keys(part) for part in x])
    assert torch.equal(torch.vmap(row_keys)(x), apart)
    for axis in (1, 2):
        assert torch.equal(torch.vmap(row_keys, in_dims=axis)(x.movedim(0, axis)), apart)
