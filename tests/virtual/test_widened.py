"""Element types that CUDA computes with and the CPU has no kernel for."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from samedevice import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch

HALF = torch.float16
CALLS = {
    "histc": lambda d: torch.histc(torch.tensor([0, 1, 1, 3], device=d), bins=4, min=0, max=3),
    "histc as a method": lambda d: torch.tensor([0, 1, 1], device=d, dtype=torch.int32).histc(3, 0, 2),
    "avg_pool3d": lambda d: F.avg_pool3d(torch.ones(1, 1, 2, 2, 2, dtype=HALF, device=d), 2),
    "interpolate": lambda d: F.interpolate(
        torch.ones(1, 1, 4, 4, dtype=torch.bfloat16, device=d), size=2, mode="bilinear", antialias=True
    ),
    "multi_margin_loss": lambda d: F.multi_margin_loss(
        torch.tensor([[0.5, 0.25]], dtype=HALF, device=d), torch.tensor([0], device=d)
    ),
    "polygamma": lambda d: torch.polygamma(1, torch.ones(2, dtype=HALF, device=d)),
    "abs of truths": lambda d: torch.tensor([True, False], device=d).abs(),
    "trace of truths": lambda d: torch.ones(3, 3, dtype=torch.bool, device=d).trace(),
    "rfft": lambda d: torch.view_as_real(torch.fft.rfft(torch.ones(2, dtype=HALF, device=d))),
    "irfft": lambda d: torch.fft.irfft(torch.fft.rfft(torch.ones(2, dtype=HALF, device=d))),
    "sum of complex": lambda d: torch.view_as_real(torch.ones(2, dtype=torch.complex32, device=d).sum()),
    "exp in place": lambda d: torch.view_as_real(torch.zeros(1, dtype=torch.complex32, device=d).exp_()),
    "abs of complex": lambda d: torch.tensor([3 + 4j], dtype=torch.complex32, device=d).abs(),
}
EXPECTED = {
    "histc": [1, 2, 0, 1],
    "histc as a method": [1, 2, 0],
    "avg_pool3d": [1.0],
    "interpolate": [1.0] * 4,
    "multi_margin_loss": [0.375],
    "polygamma": [1.64453125] * 2,
    "abs of truths": [True, False],
    "trace of truths": [3],
    "rfft": [2.0, 0.0, 0.0, 0.0],
    "irfft": [1.0, 1.0],
    "sum of complex": [2.0, 0.0],
    "exp in place": [1.0, 0.0],
    "abs of complex": [5.0],
}
TYPES = {
    "histc": torch.int64,
    "histc as a method": torch.int32,
    "interpolate": torch.bfloat16,
    "abs of truths": torch.bool,
    "trace of truths": torch.int64,
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_gpu_computes_it_and_the_result_is_there(call: str, exact: bool) -> None:
    with virtual_gpus(2, exact=exact):
        result: Any = CALLS[call]("cuda:1")

        assert result.device == torch.device("cuda:1")
        assert result.flatten().tolist() == EXPECTED[call]
        assert result.dtype is TYPES.get(call, HALF)


def test_the_cpu_goes_on_refusing() -> None:
    with virtual_gpus(1), pytest.raises(NotImplementedError, match="histogram_cpu"):
        torch.histc(torch.tensor([0, 1]), bins=2)


def test_an_operand_in_place_is_the_result() -> None:
    with virtual_gpus(1):
        x = torch.full((3,), 0.5, dtype=HALF, device="cuda")
        same = F.rrelu(-x, training=False, inplace=True)
        z = torch.ones(2, dtype=torch.complex32, device="cuda")
        given = z.div_(2)

        assert (same.dtype, same.device.type) == (HALF, "cuda")
        assert given is z
        assert torch.view_as_real(z).flatten().tolist() == [0.5, 0.0, 0.5, 0.0]


def test_gradients_have_the_type_of_what_they_belong_to() -> None:
    with virtual_gpus(1):
        x = torch.ones(1, 1, 2, 2, 2, dtype=HALF, device="cuda", requires_grad=True)
        F.avg_pool3d(x, 2).sum().backward()

        assert (x.grad.dtype, x.grad.device.type) == (HALF, "cuda")
        assert x.grad.flatten().tolist() == [0.125] * 8


def test_operands_on_two_gpus_are_refused_all_the_same() -> None:
    with virtual_gpus(2), pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        F.multi_margin_loss(torch.ones(1, 2, dtype=HALF, device="cuda:0"), torch.tensor([0], device="cuda:1"))
