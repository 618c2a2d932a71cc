"""Generators, seeds and random number states: the CPU's numbers under CUDA's rules."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from samedevice import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def gpus() -> Iterator[Any]:
    with virtual_gpus(2) as engine:
        yield engine


def _train(device: str, reentrant: bool | None) -> list[float]:
    torch.manual_seed(1)
    layers = [torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(8, 1)]
    model = torch.nn.Sequential(*layers).to(device)
    if device != "cpu":
        torch.cuda.manual_seed_all(7)  # does nothing on a machine without a GPU
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numbers = []
    for _ in range(3):
        x = torch.randn(6, 4, device=device, requires_grad=True)
        y = model(x) if reentrant is None else checkpoint(model, x, use_reentrant=reentrant)
        loss = y.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers += [loss.item(), x.grad.sum().item(), torch.rand(1).item()]
    return numbers


@pytest.mark.parametrize("reentrant", [None, True, False])
def test_dropout_and_checkpointing_draw_the_cpus_numbers(reentrant: bool | None) -> None:
    expected = _train("cpu", None)
    with virtual_gpus(2):
        numbers = _train("cuda", reentrant)

    assert numbers == expected


def test_the_same_seed_gives_the_same_numbers_again(gpus: Any) -> None:
    def drawn() -> list[float]:
        return torch.rand(3, device="cuda").tolist()

    torch.manual_seed(5)
    first = drawn()
    torch.cuda.manual_seed(5)
    assert drawn() == first
    torch.cuda.manual_seed_all(9)
    other = drawn()
    torch.cuda.manual_seed(9)
    assert drawn() == other != first
    assert torch.cuda.initial_seed() == 9


def test_seeding_a_gpu_that_has_not_drawn_leaves_the_cpus_stream_alone() -> None:
    def losses(device: str) -> list[float]:
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5)).to(device)
        torch.cuda.manual_seed(3)
        return [model(torch.rand(4, 2).to(device)).sum().item() for _ in range(3)]

    expected = losses("cpu")
    with virtual_gpus(1):
        assert losses("cuda") == expected


def test_dropout_repeats_when_the_gpu_is_seeded_again(gpus: Any) -> None:
    x = torch.ones(16, device="cuda")
    torch.manual_seed(0)
    first = torch.nn.functional.dropout(x)
    torch.cuda.manual_seed(0)

    assert torch.equal(torch.nn.functional.dropout(x), first)


def test_states_are_saved_and_restored(gpus: Any) -> None:
    states = torch.cuda.get_rng_state_all()
    first = torch.rand(3, device="cuda:1")
    torch.cuda.set_rng_state_all(states)
    again = torch.rand(3, device="cuda:1")
    with torch.random.fork_rng(devices=range(2)):
        inside = torch.rand(3, device="cuda")
        torch.cuda.manual_seed(0)
    after = torch.rand(3, device="cuda")

    assert torch.equal(first, again)
    assert torch.equal(inside, after)
    assert len(states) == 2 and states[0].dtype == torch.uint8 and not states[0].is_cuda
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        torch.cuda.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        torch.cuda.set_rng_state(torch.zeros(16))
    torch.cuda.set_rng_state(torch.tensor([3] + [0] * 15, dtype=torch.uint8))  # saved on a real GPU


def test_a_generator_knows_its_device_and_draws_as_the_cpus(gpus: Any) -> None:
    generator = torch.Generator(device="cuda:1").manual_seed(7)
    twin = pickle.loads(pickle.dumps(generator))
    state = generator.get_state()
    first = torch.randn(3, device="cuda", generator=generator)
    generator.set_state(state)

    assert torch.equal(first.cpu(), torch.randn(3, generator=torch.Generator().manual_seed(7)))
    assert torch.equal(first, torch.randn(3, device="cuda", generator=generator))
    assert torch.equal(first, torch.randn(3, device="cuda", generator=twin))
    assert generator.device == twin.device == copy.deepcopy(generator).device == torch.device("cuda:1")
    assert isinstance(generator, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator().device.type == "cpu"
    assert torch.cuda.default_generators[1].device == torch.device("cuda:1")


def test_the_default_generator_of_a_gpu_is_the_one_its_numbers_come_from(gpus: Any) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2, device="cuda")
    torch.manual_seed(3)

    assert torch.equal(torch.rand(2, device="cuda", generator=torch.cuda.default_generators[0]), expected)


@pytest.mark.parametrize(
    ("call", "wanted", "found"),
    [
        (lambda: torch.randn(2, generator=torch.Generator("cuda")), "cpu", "cuda"),
        (lambda: torch.randn(2, device="cuda", generator=torch.Generator()), "cuda", "cpu"),
        (lambda: torch.empty(2).cuda().normal_(generator=torch.Generator()), "cuda", "cpu"),
        (lambda: torch.multinomial(torch.ones(3).cuda(), 1, generator=torch.Generator()), "cuda", "cpu"),
        (
            lambda: torch.utils.data.random_split(range(4), [2, 2], generator=torch.Generator("cuda")),
            "cpu",
            "cuda",
        ),
    ],
)
def test_a_generator_of_the_wrong_kind_is_refused(gpus: Any, call: Any, wanted: str, found: str) -> None:
    with pytest.raises(
        RuntimeError, match=f"Expected a '{wanted}' device type for generator but found '{found}'"
    ):
        call()
