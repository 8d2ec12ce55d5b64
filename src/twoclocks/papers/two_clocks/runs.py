"""The runs behind P1's figures and claims, in the order in which a campaign computes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twoclocks.papers.grids import grid
from twoclocks.papers.scales import Scale
from twoclocks.sweeps.grid import Cell

GROUPS = (2, 3, 4, 6, 9, 12, 18, 36)
DIT, GPT = "p1-dit-mini", "p1-gpt-mini"
NOTHING_KEPT = {"evaluation.keep_samples": 0, "evaluation.keep_weights": 0}
# Such a run ends once copying has begun with confidence, by P1's adaptive threshold: 0.1 above chance.
AT_MEMORY = {"clocks.stop": "memory", "clocks.above_chance": True}


def evaluated(count: int, first: int) -> dict[str, Any]:
    """So many evaluations, of which the first is at this step; nothing is kept but the rows."""
    return {"evaluation.evaluations": count, "evaluation.first": first, **NOTHING_KEPT}


def until_copying(n: int) -> dict[str, Any]:
    """A run of a DiT on n samples that ends when copying has begun, or well after P1 saw it begin."""
    return {"training.steps": 300 * n, **evaluated(80, 300), **AT_MEMORY}


GPT_SHARED = {"training.steps": 60_000, **evaluated(90, 100), **AT_MEMORY}


@grid("calibration", 1, "σ_data of the baseline, 0.5 or 1: where does it put τ_rule?")
def calibration(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 30_000, **evaluated(60, 1_000)}
    for sigma in (0.5, 1.0):
        for seed in scale.seeds(2):
            for n in scale.sizes((4096,)):
                yield scale.cell(DIT, {"data.n": n, "objective.sigma_data": sigma, "training.seed": seed}, shared)


@grid("calibration-memory", 1, "τ_mem of the baseline at σ_data = 1")
def calibration_memory(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes((256, 1024)):
        for seed in scale.seeds(2):
            shared = {"training.steps": 150_000, **evaluated(*((90, 2_000) if n < 1024 else (60, 5_000))), **AT_MEMORY}
            yield scale.cell(DIT, {"data.n": n, "objective.sigma_data": 1.0, "training.seed": seed}, shared)


@grid("gpt-law", 2, "τ_mem of GPT-mini over N")
def gpt_law(scale: Scale) -> Iterator[Cell]:
    for n in scale.sizes((512, 1024, 2048, 4096, 8192, 16384)):
        for seed in scale.seeds(3):
            yield scale.cell(GPT, {"data.n": n, "training.seed": seed}, GPT_SHARED)


@grid("gpt-rates", 2, "GPT-mini's learning rate and batch, which P1 does not print")
def gpt_rates(scale: Scale) -> Iterator[Cell]:
    for rate in (1e-4, 3e-4):
        for batch in scale.thinned((64, 128, 256)):
            for n in scale.sizes((512, 2048, 8192)):
                point = {"data.n": n, "training.learning_rate": rate, "training.batch": batch}
                yield scale.cell(GPT, point, GPT_SHARED)


@grid("gpt-groups", 4, "both clocks of GPT-mini over group size and N")
def gpt_groups(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 60_000, **evaluated(90, 30), **AT_MEMORY}
    for group in scale.thinned(GROUPS):
        for n in scale.sizes((512, 1024, 2048, 4096, 8192)):
            yield scale.cell(GPT, {"rule.group": group, "data.n": n}, shared)


COUNTING: tuple[Mapping[str, Any], ...] = (
    {"name": "parity", "length": 36, "group": 2},
    {"name": "exact_k", "length": 36, "k": 9},
    {"name": "exact_k", "length": 36, "k": 18},
    {"name": "exact_k", "length": 36, "k": 27},
    {"name": "row_k", "side": 6, "k": 2},
    {"name": "row_k", "side": 6, "k": 3},
    {"name": "row_k", "side": 6, "k": 4},
    {"name": "row_variable_k", "side": 6, "ks": [2, 3]},
    {"name": "global_k", "side": 6, "ks": [2, 3]},
)


@grid("counting", 5, "τ_rule of DiT-mini on counting rules, beside pairs of bits")
def counting(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 8_000, **evaluated(60, 100)}
    for rule in COUNTING:
        for seed in scale.seeds(3):
            for n in scale.sizes((4096,)):
                yield scale.cell(DIT, {"rule": rule, "data.n": n, "training.seed": seed}, shared)


@grid("counting-step", 5, "τ_rule of the baseline at the counting rules' N: what one more bit per group costs")
def counting_step(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 30_000, **evaluated(60, 1_000)}
    for n in scale.sizes((4096,)):
        for seed in scale.seeds(3):
            yield scale.cell(DIT, {"data.n": n, "objective.sigma_data": 1.0, "training.seed": seed}, shared)


@grid("dit-rule", 6, "τ_rule of DiT-mini over group size and N")
def dit_rule(scale: Scale) -> Iterator[Cell]:
    for group, steps in ((2, 6_000), (3, 30_000), (4, 200_000)):
        shared = {"training.steps": steps, **evaluated(60, steps // 100), "clocks.stop": "rule"}
        for n in scale.sizes((1024, 8192) if group < 4 else (4096,)):
            for seed in scale.seeds(3):
                yield scale.cell(DIT, {"rule.group": group, "data.n": n, "training.seed": seed}, shared)


@grid("dit-groups", 8, "both clocks of DiT-mini over group size and N")
def dit_groups(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes((256, 512, 1024)):
        for group in scale.thinned(GROUPS):
            yield scale.cell(DIT, {"rule.group": group, "data.n": n}, until_copying(n))


@grid("half-copies", 9, "how fast copies rise from a tenth to a half, for DiT-mini and GPT-mini on the same data")
def half_copies(scale: Scale) -> Iterator[Cell]:
    for n in scale.sizes((512,)):
        for seed in scale.seeds(3):
            point = {"data.n": n, "training.seed": seed}
            yield scale.cell(DIT, point, {"training.steps": 300 * n, **evaluated(100, 300)})
            yield scale.cell(GPT, point, {"training.steps": 40 * n, **evaluated(100, 30)})


@grid("recombination", 8, "group sizes and N at which a training set holds a part of the valid groups only")
def recombination(scale: Scale) -> Iterator[Cell]:
    for group, n in ((9, 64), (12, 256), (18, 256)):
        for size in scale.copied_sizes((n,)):
            for seed in scale.seeds(3):
                point = {"rule.group": group, "data.n": size, "training.seed": seed}
                yield scale.cell(DIT, point, until_copying(n))


@grid("dit-groups-small", 8, "τ_mem of DiT-mini by group size at a fourth N, without which no law can be fitted")
def dit_groups_small(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes((128,)):
        for group in scale.thinned(GROUPS):
            yield scale.cell(DIT, {"rule.group": group, "data.n": n}, until_copying(n))


def law_run(scale: Scale, n: int, seed: int) -> Cell:
    """A run of the law of τ_mem; at the baseline's N it goes on until half of the samples are copies."""
    half = {"clocks.memory_threshold": 0.5} if n >= 4096 else {}
    return scale.cell(DIT, {"data.n": n, "training.seed": seed}, {**until_copying(n), **half})


@grid("dit-law", 9, "τ_mem of DiT-mini over N, up to the baseline of 4,096 samples")
def dit_law(scale: Scale) -> Iterator[Cell]:
    for n in scale.copied_sizes((64, 128, 256, 512, 1024, 2048, 4096)):
        for seed in scale.seeds(3 if n <= 1024 else 2 if n < 4096 else 1):
            yield law_run(scale, n, seed)


KEPT = {"evaluation.evaluations": 60, "evaluation.first": 30, "evaluation.keep_weights": 60}
DIT_VIEWS = ("raster", "approach", "spectrum", "basin", "field", "groups", "trajectories")
GPT_VIEWS = ("raster", "positions", "groups", "approach")


@grid("dissection-gpt", 4, "checkpoints of GPT-mini from the first steps to beyond τ_mem", views=GPT_VIEWS)
def dissection_gpt(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 20_000, **KEPT, "evaluation.keep_samples": 2048}
    for n in scale.sizes((4096,)):
        for seed in scale.seeds(3):
            yield scale.cell(GPT, {"data.n": n, "training.seed": seed}, shared)


@grid("dissection", 9, "checkpoints of DiT-mini from the first steps to beyond τ_mem", views=DIT_VIEWS)
def dissection(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 150_000, **KEPT, "evaluation.keep_samples": 2048}
    for n in scale.copied_sizes((1024,)):
        for seed in scale.seeds(3):
            yield scale.cell(DIT, {"data.n": n, "training.seed": seed}, shared)


def networks_of_all_sizes(scale: Scale, seed: int) -> Iterator[Cell]:
    for size in ("nano", "mini", "b"):
        for n in scale.sizes((256, 512)):
            for group in scale.thinned((2, 3)):
                point = {"rule.group": group, "data.n": n, "training.seed": seed}
                dit = {"training.steps": 300 * n, **evaluated(60, 300), **AT_MEMORY}
                gpt = {"training.steps": 30_000, **evaluated(80, 30), **AT_MEMORY}
                yield scale.cell(f"p1-dit-{size}", point, dit)
                yield scale.cell(f"p1-gpt-{size}", point, gpt)


@grid("network-sizes", 10, "both clocks of the smallest and largest networks")
def network_sizes(scale: Scale) -> Iterator[Cell]:
    yield from networks_of_all_sizes(scale, seed=0)


STRUCTURED_SHARED = {"training.steps": 40_000, **evaluated(60, 100)}


@grid("structured", 11, "rows and columns of Latin squares and Sudoku, in two encodings")
def structured(scale: Scale) -> Iterator[Cell]:
    for rule in ("row-latin", "latin", "sudoku"):
        yield from in_two_encodings(scale, f"p1-dit-{rule}", 4096, STRUCTURED_SHARED)


@grid("structured-cyclic", 11, "the same, drawn as P1 does: permutations of the cyclic square")
def structured_cyclic(scale: Scale) -> Iterator[Cell]:
    rules = {"latin": {"name": "latin_cyclic", "side": 6}, "sudoku": {"name": "sudoku_cyclic"}}
    for preset, rule in rules.items():
        yield from in_two_encodings(scale, f"p1-dit-{preset}", 4096, STRUCTURED_SHARED, rule=rule)


@grid("structured-transposed", 11, "Latin squares and Sudoku of both samplers, every training sample transposed")
def structured_transposed(scale: Scale) -> Iterator[Cell]:
    for cell in (*structured(scale), *structured_cyclic(scale)):
        if cell.settings.name != "p1-dit-row-latin":  # rows alone, transposed, are another rule
            yield scale.cell(cell.settings.name, {**cell.point, "data.transposed": True}, STRUCTURED_SHARED)


@grid("structured-memory", 11, "τ_mem of Latin squares and Sudoku in two encodings, at an N where it is soon")
def structured_memory(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 40_000, **evaluated(60, 300), **AT_MEMORY}
    for rule in ("latin", "sudoku"):
        yield from in_two_encodings(scale, f"p1-dit-{rule}", 128, shared)


def in_two_encodings(scale: Scale, preset: str, n: int, shared: Mapping[str, Any], **change: Any) -> Iterator[Cell]:
    """Three seeds of a preset at one N, in each encoding of symbols."""
    for encoding in ("scalar", "one_hot"):
        for seed in scale.seeds(3):
            for size in scale.sizes((n,)):
                point = {**change, "data.n": size, "encoding": encoding, "training.seed": seed}
                yield scale.cell(preset, point, shared)


@grid("frontier", 12, "seeds of both networks where the rule is learned just before τ_mem, or not")
def frontier(scale: Scale) -> Iterator[Cell]:
    for n in scale.sizes((512, 1024)):
        for group in scale.thinned((4, 6)):
            for seed in scale.seeds(3):
                point = {"rule.group": group, "data.n": n, "training.seed": seed}
                yield scale.cell(DIT, point, until_copying(n))
                yield scale.cell(GPT, point, {"training.steps": 60_000, **evaluated(90, 30), **AT_MEMORY})


RATES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3)


@grid("gpt-optimizer", 12, "GPT-mini's learning rate and weight decay at G = 6")
def gpt_optimizer(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 40_000, **evaluated(80, 30)}
    for n in scale.sizes((4096,)):
        for rate in scale.thinned(RATES):
            yield scale.cell(GPT, {"rule.group": 6, "data.n": n, "training.learning_rate": rate}, shared)
        for decay in scale.thinned((0.0, 1e-3, 1e-2, 1e-1, 0.3, 1.0)):
            yield scale.cell(GPT, {"rule.group": 6, "data.n": n, "training.weight_decay": decay}, shared)


@grid("gpt-optimizer-seeds", 12, "the same for three seeds, each until it copies")
def gpt_optimizer_seeds(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 40_000, **evaluated(80, 30), **AT_MEMORY}
    for seed in scale.seeds(3):
        for n in scale.sizes((4096,)):
            point = {"rule.group": 6, "data.n": n, "training.seed": seed}
            for rate in scale.thinned(RATES):
                yield scale.cell(GPT, {**point, "training.learning_rate": rate}, shared)
            for decay in scale.thinned((1e-3, 1e-2, 1e-1, 0.3, 1.0)):
                yield scale.cell(GPT, {**point, "training.weight_decay": decay}, shared)


@grid("dit-optimizer", 12, "DiT-mini's learning rate and weight decay at G = 6")
def dit_optimizer(scale: Scale) -> Iterator[Cell]:
    shared = {"training.steps": 300_000, **evaluated(60, 1_000), **AT_MEMORY}
    for n in scale.copied_sizes((4096,)):
        for rate in scale.thinned(RATES):
            yield scale.cell(DIT, {"rule.group": 6, "data.n": n, "training.learning_rate": rate}, shared)
        for decay in scale.thinned((1e-5, 1e-4, 1e-3, 1e-2)):
            point = {"rule.group": 6, "data.n": n, "training.optimizer": "adamw", "training.weight_decay": decay}
            yield scale.cell(DIT, point, shared)
