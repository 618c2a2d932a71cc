"""Attention with a backend that only a GPU has: it computes, and what CUDA refuses stays refused."""

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import samedevice  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*fused kernels|.*kernel not used")]


@pytest.fixture(params=[False, True], ids=["fast", "exact"], autouse=True)
def gpus(request: pytest.FixtureRequest) -> Iterator[Any]:
    with samedevice.virtual_gpus(2, exact=request.param) as engine:
        yield engine


def query(device: str = "cuda") -> Any:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, 2, 4, 8, generator=generator).to(device).requires_grad_()


@pytest.mark.parametrize(
    "backends",
    [
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.CUDNN_ATTENTION,
        [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION],
    ],
)
def test_backends_of_a_gpu_compute_what_the_composite_one_computes(backends: Any) -> None:
    q = query()
    with sdpa_kernel(SDPBackend.MATH):
        expected = scaled_dot_product_attention(q, q, q)
    with sdpa_kernel(backends):
        result = scaled_dot_product_attention(q, q, q)
        result.sum().backward()
        assert not torch.backends.cuda.math_sdp_enabled()

    assert result.device == q.grad.device == torch.device("cuda:0")
    assert result.tolist() == expected.tolist()


def test_flash_attention_drops_out_on_a_gpu() -> None:
    q = query()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert scaled_dot_product_attention(q, q, q, dropout_p=0.5).device == torch.device("cuda:0")


def test_without_any_backend_it_is_refused() -> None:
    q = query()
    with sdpa_kernel([]), pytest.raises(RuntimeError, match="No viable backend"):
        scaled_dot_product_attention(q, q, q)


def test_on_the_cpu_the_cpus_backends_count() -> None:
    q = query("cpu")
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), pytest.raises(RuntimeError, match="No viable backend"):
        scaled_dot_product_attention(q, q, q)


def test_operands_apart_are_refused_all_the_same() -> None:
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), pytest.raises(RuntimeError, match="same device type"):
        scaled_dot_product_attention(query(), query("cpu"), query())
