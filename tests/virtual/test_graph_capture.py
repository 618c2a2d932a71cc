"""CUDA graphs on virtual GPUs: a replay does the block's operations again, on the same memory."""

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import samedevice  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(params=[False, True], ids=["fast", "exact"])
def gpus(request: pytest.FixtureRequest) -> Iterator[Any]:
    with samedevice.virtual_gpus(2, exact=request.param) as engine:
        yield engine


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).cuda()


def batches(count: int) -> list[Any]:
    torch.manual_seed(1)
    return [(torch.randn(4, 8, device="cuda"), torch.randn(4, 4, device="cuda")) for _ in range(count)]


def step(net: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


def test_a_captured_training_step_trains_as_the_step_itself(gpus: Any) -> None:
    data = batches(5)
    plain = model()
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01, capturable=True)
    expected = [step(plain, optimizer, *data[0]).item() for _ in range(3)]
    expected += [step(plain, optimizer, x, y).item() for x, y in data]

    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, capturable=True)
    x, y = (tensor.clone() for tensor in data[0])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        found = [step(net, optimizer, x, y).item() for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(net, optimizer, x, y)
        assert torch.cuda.is_current_stream_capturing()
    for new_x, new_y in data:
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        found.append(loss.item())

    assert found == expected
    assert all(map(torch.equal, net.state_dict().values(), plain.state_dict().values()))
    assert not torch.cuda.is_current_stream_capturing()


def test_capturing_itself_writes_nothing_that_was_there(gpus: Any) -> None:
    total, graph = torch.zeros(2, device="cuda:1"), torch.cuda.CUDAGraph()
    state = torch.get_rng_state()
    with torch.cuda.graph(graph):
        total += 1
        drawn = torch.rand(2, device="cuda:1")

    assert total.tolist() == [0, 0]
    assert torch.equal(torch.get_rng_state(), state)
    graph.replay()
    first = drawn.tolist()
    graph.replay()
    assert total.tolist() == [2, 2]
    assert drawn.tolist() != first
    assert drawn.device == torch.device("cuda:1")


def test_numbers_of_the_host_are_written_into_the_graph(gpus: Any) -> None:
    factor, x, graph = torch.tensor(2.0), torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * factor
    factor.fill_(5)
    x.fill_(3)
    graph.replay()

    assert y.tolist() == [6, 6]


def test_graphed_callables_compute_what_the_callables_do(gpus: Any) -> None:
    data = batches(4)

    def train(graphed: bool) -> list[float]:
        net = model()
        net[1].eval()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        run = torch.cuda.make_graphed_callables(net, (data[0][0].clone(),)) if graphed else net
        return [step(run, optimizer, x, y).item() for x, y in data]

    assert train(True) == train(False)


def test_what_cuda_refuses_of_graphs_is_refused(gpus: Any) -> None:
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        graph.capture_begin()
    with (
        pytest.raises(torch.AcceleratorError, match="operation not permitted when stream is capturing"),
        torch.cuda.graph(graph),
    ):
        torch.ones(2, device="cuda").sum().item()

    assert not torch.cuda.is_current_stream_capturing()
    with (
        pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        torch.ones(2, device="cuda") + torch.ones(2)
