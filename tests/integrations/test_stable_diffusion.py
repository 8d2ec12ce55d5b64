"""The fine-tune of Stable Diffusion on a tiny pipeline of real classes: full and LoRA, resumed, with a descriptor."""

from __future__ import annotations

import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState, GradientState
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file

EXAMPLES = Path(__file__).parents[2] / "examples"
FEW = ["--steps", "6", "--every", "2", "--generations", "6", "--held-out", "20", "--sampling-steps", "3"]
Run = Callable[..., list[str]]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a tiny pipeline and images; its autoencoder is trained for a few steps only."""
    sys.path.insert(0, str(EXAMPLES))
    from tiny_pipeline import draw_images, write_pipeline

    folder = tmp_path_factory.mktemp("inputs")
    pixels = torch.as_tensor(draw_images(folder / "images", 30)).permute(0, 3, 1, 2) / 127.5 - 1
    write_pipeline(folder / "model", pixels, vae_steps=5)
    yield folder
    sys.path.remove(str(EXAMPLES))


@pytest.fixture
def run(inputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Starts the example with a few steps, and returns the lines that it printed."""

    def start(out: Path, *more: str) -> list[str]:
        AcceleratorState._reset_state(True)
        GradientState._reset_state()
        capsys.readouterr()
        given = ["--smoke", "--model", str(inputs / "model"), "--images", str(inputs / "images"), "--out", str(out)]
        monkeypatch.setattr(sys, "argv", ["stable_diffusion.py", *given, *FEW, *more])
        runpy.run_path(str(EXAMPLES / "stable_diffusion.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return start


def stored(out: Path) -> dict[str, Any]:
    """Weights, optimizer and monitor of the only checkpoint of a finished run."""
    (folder,) = out.glob("step-*")
    assert folder.name == "step-6" and not (out / "unfinished").exists()
    return {
        "weights": load_file(folder / "model.safetensors"),
        "optimizer": torch.load(folder / "optimizer.bin", weights_only=True)["state"],
        "monitor": torch.load(folder / "custom_checkpoint_0.pkl", weights_only=True),
    }


def assert_same_run(one: Path, other: Path) -> None:
    ours, theirs = stored(one), stored(other)
    assert ours["weights"].keys() == theirs["weights"].keys() and ours["monitor"] == theirs["monitor"]
    assert all(torch.equal(ours["weights"][name], theirs["weights"][name]) for name in ours["weights"])
    for index, state in ours["optimizer"].items():
        assert all(torch.equal(state[name], theirs["optimizer"][index][name]) for name in state)
    for name in ("page.html", "copies.png"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_a_full_run_that_was_interrupted_while_training_continues_exactly(
    tmp_path: Path, run: Run, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(tmp_path / "whole")
    assert [line.split(":")[0] for line in whole[1:4]] == ["step 2", "step 4", "step 6"]
    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", interrupted(torch.optim.AdamW.step, call=5))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "parts")
    assert [path.name for path in (tmp_path / "parts").glob("step-*")] == ["step-4"]
    again = run(tmp_path / "parts")
    assert again[1] == "continued from step 4" and again[2:] == whole[3:]
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert run(tmp_path / "parts")[2:] == whole[4:]  # a run that is done does nothing, and says the same
    before = UNet2DConditionModel.from_pretrained(inputs / "model", subfolder="unet").state_dict()
    after = UNet2DConditionModel.from_pretrained(tmp_path / "whole" / "before_copying").state_dict()
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_a_lora_run_that_was_interrupted_while_saving_continues_exactly(
    tmp_path: Path, run: Run, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(tmp_path / "whole", "--lora", "2")
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", interrupted(torch.save, call=4))  # the optimizer of the second checkpoint
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "parts", "--lora", "2")
    assert (tmp_path / "parts" / "unfinished").exists()
    assert run(tmp_path / "parts", "--lora", "2")[2:] == whole[2:]
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    weights = stored(tmp_path / "whole")["weights"]
    before = UNet2DConditionModel.from_pretrained(inputs / "model", subfolder="unet").state_dict()
    kept = {name.replace(".base_layer", ""): value for name, value in weights.items() if "lora_" not in name}
    assert kept.keys() == before.keys() and all(torch.equal(kept[name], before[name]) for name in before)
    assert all(value.any() for name, value in weights.items() if "lora_B" in name)  # it begins at zero
    pipe = StableDiffusionPipeline.from_pretrained(inputs / "model")
    pipe.load_lora_weights(tmp_path / "whole" / "before_copying")
    loaded = {name: value for name, value in pipe.unet.state_dict().items() if "lora_" in name}
    trained = {name: value for name, value in weights.items() if "lora_" in name}
    assert len(loaded) == len(trained) > 0
    assert sorted(float(value.sum()) for value in loaded.values()) == sorted(float(v.sum()) for v in trained.values())


def interrupted(function: Callable[..., Any], call: int) -> Callable[..., Any]:
    """The same function, which is interrupted at one of its calls."""
    calls = 0

    def called(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyboardInterrupt
        return function(*given, **options)

    return called


def test_a_descriptor_of_the_user_is_named_and_counted_with(tmp_path: Path, run: Run) -> None:
    class Pixels(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.avg_pool2d(x, 72).flatten(1)  # of 288 pixels: 4 × 4 parts

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Pixels()).save(str(tmp_path / "pixels.torchscript.pt"))
    lines = run(tmp_path / "out", "--steps", "2", "--descriptor", str(tmp_path / "pixels.torchscript.pt"))
    counted = "counted: copies by pixels.torchscript.pt (SHA-256 "
    assert counted in lines[0] and lines[0].endswith("shorter edge 288 pixels) with a cosine above 0.5")
    assert lines[0].split("counted: ")[1] in (tmp_path / "out" / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--descriptor", "none.pt"], "descriptor: 'none.pt' is not a file; give a TorchScript file, such as"),
        (["--held-out", "30"], "--held-out: 30 of 30 images leave none to train on; give fewer"),
    ],
)
def test_what_cannot_be_used_ends_the_example_with_one_line(
    tmp_path: Path, run: Run, more: list[str], line: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(tmp_path / "out", *more)
    assert str(caught.value).startswith(line)


def test_wrong_inputs_end_in_one_line(run: Run, inputs: Path, tmp_path: Path) -> None:
    lines = '{"file_name": "0.png"}\n'
    for folder, written, named in (("empty", None, "metadata.jsonl"), ("uncaptioned", lines, '"text": "a caption"')):
        (tmp_path / folder).mkdir()
        if written is not None:
            (tmp_path / folder / "metadata.jsonl").write_text(written)
        with pytest.raises(SystemExit) as ended:
            run(tmp_path / "out", "--images", str(tmp_path / folder))
        assert named in str(ended.value) and "\n" not in str(ended.value)
    with pytest.raises(SystemExit, match="nowhere"):
        run(tmp_path / "out", "--model", str(tmp_path / "nowhere"))
