"""A list of operations computes what was computed when it was written down, to the last bit, on other numbers too."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional

from twoclocks.training.memory_plan import pack
from twoclocks.training.recording import Recording, out_variant
from twoclocks.training.repeatable import NotRecordableError

aten = torch.ops.aten
Work = Callable[[Tensor, Tensor], Tensor]


def in_place(x: Tensor, w: Tensor) -> Tensor:
    y = x @ w
    y.add_(1.0).mul_(x)
    y[:, 1:3] = x[:, :2]
    return y


def views(x: Tensor, w: Tensor) -> Tensor:
    first, second = (x @ w).split(2, dim=1)
    return torch.cat([second.t().contiguous().t(), first.unsqueeze(0).expand(2, -1, -1).sum(0)], dim=1)


def written_to_parts(x: Tensor, w: Tensor) -> Tensor:
    out = torch.empty(2, *x.shape)
    torch.mm(x, w, out=out[0])
    torch.mul(x, 2.0, out=out[1])
    return out.sum(dim=0)


def gathered(x: Tensor, w: Tensor) -> Tensor:
    places = x.abs().argsort(dim=0)[:, 0]
    return w[places % len(w)] + functional.embedding(places % len(w), w)


def scattered(x: Tensor, w: Tensor) -> Tensor:
    return torch.zeros(3, 4).index_add_(0, torch.arange(len(x)) % 3, x) @ w


def masked(x: Tensor, w: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.5).masked_fill(x > 1, -1.0) @ w


def numbers(x: Tensor, w: Tensor) -> Tensor:
    return 2 - (x * 3 + 1) / 4 @ w - (x - 2.5) ** 3 + (x.abs() + 1).rsqrt() + x.exp().clamp(max=3) * -1


def other_types(x: Tensor, w: Tensor) -> Tensor:
    return x.double().sum(dim=1, keepdim=True).float() + (x.long() % 3).float() @ w


def with_random_access(x: Tensor, w: Tensor) -> Tensor:
    return functional.pad(x, (1, 2))[:, 1:5].flip(0).cumsum(0).topk(2, dim=0).values @ w


def attention(x: Tensor, w: Tensor) -> Tensor:
    q = (x @ w).view(1, 1, *x.shape)
    return functional.scaled_dot_product_attention(q, q, q, is_causal=True)[0, 0]


def with_constants(x: Tensor, w: Tensor) -> Tensor:
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return (x * scale) @ w + torch.full((4,), 0.5) + torch.arange(4)


def checked_inverse(x: Tensor, w: Tensor) -> Tensor:
    """It has an operation without a result, which only looks for errors."""
    return torch.linalg.inv(w + 5 * torch.eye(4)) @ x.t()


def numbers_with_a_factor(x: Tensor, w: Tensor) -> Tensor:
    return torch.add(x, 2, alpha=3) - torch.sub(x @ w, 1, alpha=0.5)


def losses(x: Tensor, w: Tensor) -> Tensor:
    chosen = x.argmax(dim=1)
    return functional.cross_entropy(x @ w, chosen) + functional.mse_loss(functional.layer_norm(x, (4,)), x)


def network_and_gradient(x: Tensor, w: Tensor) -> Tensor:
    weight = w.detach().requires_grad_()
    with torch.enable_grad():
        out = functional.gelu(functional.conv1d(x[None], torch.stack([weight] * len(x), dim=1)[..., :3])).sum()
        return torch.autograd.grad(out, weight)[0]


WORKS: list[Work] = [
    in_place, views, written_to_parts, gathered, scattered, masked, numbers, other_types, with_random_access,
    attention, with_constants, checked_inverse, numbers_with_a_factor, losses, network_and_gradient,
]  # fmt: skip


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_a_recording_computes_the_same_on_other_numbers(work: Work) -> None:
    """Its memory is filled with NaN before: what is read was written in the same repetition."""
    torch.manual_seed(0)
    x, w = torch.randn(6, 4), torch.randn(4, 4)
    recording = Recording(lambda: work(x, w))
    for _ in range(3):
        x.normal_()
        w.normal_()
        recording.memory.view(torch.float32).fill_(float("nan"))
        assert torch.equal(recording(), work(x, w))
    assert recording() is recording.result


def drawn(x: Tensor, w: Tensor) -> Tensor:
    return functional.dropout(x, 0.5)


def drawn_from_a_generator(x: Tensor, w: Tensor) -> Tensor:
    return x + torch.rand(x.shape, generator=torch.Generator().manual_seed(0))


def read_by_python(x: Tensor, w: Tensor) -> Tensor:
    return x * float(x.sum())


def branching(x: Tensor, w: Tensor) -> Tensor:
    return x if bool((x > 0).all()) else x @ w


def of_changing_shape(x: Tensor, w: Tensor) -> Tensor:
    return x[x > 0].sum() + x


def changing_its_input(x: Tensor, w: Tensor) -> Tensor:
    return x.add_(1)


def changing_a_part_of_its_input(x: Tensor, w: Tensor) -> Tensor:
    torch.mm(x, w, out=x.view(6, 4)[:, :])
    return x @ w


def turned_in_place(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).t_().contiguous()


def sparse(x: Tensor, w: Tensor) -> Tensor:
    return x.to_sparse() @ w


def nested(x: Tensor, w: Tensor) -> Tensor:
    return torch.nested.as_nested_tensor([x, x[:2]]).to_padded_tensor(0.0)


def drawn_from_a_copy_of_the_stream(x: Tensor, w: Tensor) -> Tensor:
    with torch.random.fork_rng():
        return x + torch.randn(x.shape)


def drawn_by_python(x: Tensor, w: Tensor) -> Tensor:
    return x * random.random()


def drawn_by_numpy(x: Tensor, w: Tensor) -> Tensor:
    return x * float(numpy.random.rand())


def read_as_a_list(x: Tensor, w: Tensor) -> Tensor:
    return x @ w if x.tolist()[0][0] > 0 else x


def read_as_an_array(x: Tensor, w: Tensor) -> Tensor:
    return x @ w if x.numpy().mean() > 0 else x


def read_by_numpy(x: Tensor, w: Tensor) -> Tensor:
    return x @ w if numpy.asarray(x).mean() > 0 else x


def of_running_means(x: Tensor, w: Tensor) -> Tensor:
    return functional.batch_norm(x, w[0], w[1].abs(), training=True)


def to_a_place_that_grows(x: Tensor, w: Tensor) -> Tensor:
    return torch.mm(x, w, out=torch.empty(0))


def conjugated(x: Tensor, w: Tensor) -> Tensor:
    return torch.fft.fft(x).conj().abs()


def changing_and_returning(x: Tensor, w: Tensor) -> Tensor:
    """One operation that changes one tensor and makes another."""
    return torch._native_batch_norm_legit(x, None, None, w[0].clone(), w[1].abs(), True, 0.1, 1e-5)[0]


def new_and_old() -> Any:
    """An operation whose results are new values and a view of its input, which torch does not have itself."""
    library = torch.library.Library("twoclocks_tests", "FRAGMENT")
    library.define("new_and_old(Tensor(a) x) -> (Tensor, Tensor(a))")
    library.impl("new_and_old", lambda x: (x + 1, x.view(-1)), "CPU")
    return library


LIBRARY = new_and_old()


def returning_new_and_old(x: Tensor, w: Tensor) -> Tensor:
    new, old = torch.ops.twoclocks_tests.new_and_old(x)
    return new.view(-1) + old


REFUSED: list[Work] = [
    drawn, drawn_from_a_generator, read_by_python, branching, of_changing_shape, changing_its_input,
    changing_a_part_of_its_input, turned_in_place, sparse, nested, drawn_from_a_copy_of_the_stream, drawn_by_python,
    drawn_by_numpy, read_as_a_list, read_as_an_array, read_by_numpy, of_running_means, to_a_place_that_grows,
    conjugated, changing_and_returning, returning_new_and_old,
]  # fmt: skip


@pytest.mark.parametrize("work", REFUSED, ids=lambda work: work.__name__)
def test_what_a_list_of_operations_cannot_repeat_is_refused(work: Work) -> None:
    """And leaves all tensors and all streams of random numbers as they were."""
    x, w = torch.randn(6, 4), torch.randn(4, 4)
    before = x.clone(), w.clone()
    torch.manual_seed(3)
    random.seed(3)
    numpy.random.seed(3)
    with pytest.raises(NotRecordableError):
        Recording(lambda: work(x, w))
    assert torch.equal(x, before[0]) and torch.equal(w, before[1])
    after = float(torch.rand(())), random.random(), numpy.random.rand()
    torch.manual_seed(3)
    random.seed(3)
    numpy.random.seed(3)
    assert after == (float(torch.rand(())), random.random(), numpy.random.rand())


def test_recordings_are_of_the_cpu_whatever_the_default_is() -> None:
    x = torch.randn(6, 4)
    torch.set_default_device("meta")
    try:
        recording = Recording(lambda: x @ x.t())
    finally:
        torch.set_default_device(None)
    assert torch.equal(recording(), x @ x.t())


def test_views_are_not_computed_again_and_memory_is_used_again() -> None:
    x = torch.randn(64, 64)

    def work() -> Tensor:
        y = x
        for _ in range(20):
            y = (y.t().reshape(64, 64) @ x).view(8, 8, 64).flatten(0, 1)
        return y

    recording = Recording(work)
    assert len(recording.calls) < 45 and recording.memory.nbytes <= 4 * x.nbytes


def test_recording_keeps_nothing_alive_that_the_computation_lets_go() -> None:
    x, alive = torch.randn(64, 64), list[int]()
    made: list[StorageWeakRef] = []

    def work() -> Tensor:
        y = x
        for _ in range(20):
            y = y @ x
            made.append(StorageWeakRef(y.untyped_storage()))
            alive.append(sum(not one.expired() for one in made))
        return y

    Recording(work)
    assert len(alive) == 20 and max(alive) == 1


def test_what_needs_much_memory_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64, 64)
    needed = 2 * x.nbytes  # one result is read while the next is computed
    monkeypatch.setattr("twoclocks.training.recording.MOST_BYTES", needed)
    Recording(lambda: (x @ x) @ x)
    monkeypatch.setattr("twoclocks.training.recording.MOST_BYTES", needed - 1)
    with pytest.raises(NotRecordableError, match="MB"):
        Recording(lambda: (x @ x) @ x)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(0, 9)), min_size=1, max_size=40))
def test_what_lives_at_the_same_time_does_not_overlap(blocks: list[tuple[int, int, int]]) -> None:
    first = {key: start for key, (start, _, _) in enumerate(blocks)}
    last = {key: start + length for key, (start, length, _) in enumerate(blocks)}
    sizes = {key: 64 * size for key, (_, _, size) in enumerate(blocks)}
    offsets = pack(first, last, sizes)
    assert all(offset >= 0 and offset % 64 == 0 for offset in offsets.values())
    for one in offsets:
        for other in range(one):
            if first[one] <= last[other] and first[other] <= last[one]:
                assert offsets[one] + sizes[one] <= offsets[other] or offsets[other] + sizes[other] <= offsets[one]
    assert max(offsets[key] + sizes[key] for key in offsets) <= sum(sizes.values())


def test_operations_write_to_their_place_where_torch_can() -> None:
    """A form that torch only wraps would compute into new memory and copy, and is not taken for one."""
    found = {one: out_variant(one) for one in (aten.mm.default, aten.sum.dim_IntList, aten.gelu_backward.default)}
    assert found == {
        aten.mm.default: (aten.mm.out, ["out"]),
        aten.sum.dim_IntList: (aten.sum.IntList_out, ["out"]),
        aten.gelu_backward.default: (aten.gelu_backward.grad_input, ["grad_input"]),
    }
    assert out_variant(aten.native_layer_norm.default) is None and out_variant(aten.clone.default) is None
