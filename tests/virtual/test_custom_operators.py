"""Operators of a program's own, and PyTorch's that have no kernel for the CPU."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import samedevice  # noqa: E402

pytestmark = pytest.mark.torch

LIBRARY = torch.library.Library("samedevice_test_kernels", "DEF")
LIBRARY.define("both(Tensor x) -> Tensor")
LIBRARY.define("gpu(Tensor x) -> Tensor")
LIBRARY.define("shapes(Tensor x, int size) -> (Tensor, Tensor[])")
LIBRARY.define("nothing(Tensor x) -> Tensor")
LIBRARY.define("spaced(Tensor x) -> Tensor")
LIBRARY.impl("both", lambda x: x * 2, "CPU")
LIBRARY.impl("both", lambda x: x * 3, "CUDA")
LIBRARY.impl("gpu", lambda x: x + torch.ones(2), "CUDA")
exec(compile('LIBRARY.impl("spaced", lambda x: x * 5, "CUDA")', "/my work/kernels.py", "exec"))
torch.library.register_fake(
    "samedevice_test_kernels::shapes",
    lambda x, size: (x.new_empty(size, dtype=torch.int64), [torch.empty_like(x)]),
    lib=LIBRARY,
)
OPS = torch.ops.samedevice_test_kernels


@torch.library.custom_op("samedevice_test_kernels::host", mutates_args=(), device_types="cpu")
def host(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("samedevice_test_kernels::launching", mutates_args=(), device_types="cuda")
def launching(x: torch.Tensor) -> torch.Tensor:
    import cupy  # type: ignore[import-not-found, unused-ignore]

    return cupy.launch(x)


launching.register_fake(lambda x: torch.empty_like(x))
launching.register_autograd(lambda context, gradient: gradient * 2)


@torch.library.custom_op("samedevice_test_kernels::wrong", mutates_args=(), device_types="cuda")
def wrong(x: torch.Tensor) -> torch.Tensor:
    return x + x[5]


@pytest.fixture(params=[False, True], ids=["fast", "exact"])
def gpus(request: pytest.FixtureRequest) -> Iterator[Any]:
    with samedevice.virtual_gpus(2, exact=request.param) as engine:
        yield engine


def test_a_kernel_in_python_for_cuda_is_the_one_that_runs(gpus: Any) -> None:
    x = torch.ones(2, device="cuda:1")

    assert OPS.both(x).tolist() == [3, 3]
    assert OPS.both(x).device == torch.device("cuda:1")
    assert OPS.both(x.cpu()).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="at least two devices, cuda:1 and cpu!"):
        OPS.gpu(x)
    with pytest.raises(NotImplementedError, match="arguments from the 'CPU' backend"):
        OPS.gpu(x.cpu())


def test_a_kernel_in_python_may_stand_in_a_folder_with_a_space(gpus: Any) -> None:
    assert OPS.spaced(torch.ones(2, device="cuda")).tolist() == [5, 5]


def test_an_operator_for_the_host_alone_is_refused_on_a_gpu(gpus: Any) -> None:
    assert host(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="::host' with arguments from the 'CUDA' backend"):
        host(torch.ones(2, device="cuda"))


def test_without_a_kernel_the_shapes_are_those_of_the_fake_and_it_is_said(gpus: Any) -> None:
    first, (second,) = OPS.shapes(torch.ones(2, device="cuda:1"), 3)

    assert first.tolist() == [0, 0, 0]
    assert {first.device, second.device} == {torch.device("cuda:1")}
    assert any(
        "`samedevice_test_kernels::shapes` has no version for the CPU" in n for n in gpus.session.notes
    )


def test_without_a_fake_pytorchs_own_error_stands(gpus: Any) -> None:
    with pytest.raises(NotImplementedError, match="::nothing' with arguments from the 'CPU' backend"):
        OPS.nothing(torch.ones(2, device="cuda"))


@pytest.mark.skipif("cupy" in sys.modules, reason="the kernel is not to run")
def test_a_kernel_that_launches_gpu_code_is_stood_in_for_and_differentiated(gpus: Any) -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    y = launching(x)
    y.sum().backward()

    assert y.tolist() == [0, 0]
    assert x.grad is not None and x.grad.tolist() == [2, 2]
    assert x.grad.device == torch.device("cuda:0")


def test_a_mistake_in_a_kernel_is_the_programs_own(gpus: Any) -> None:
    with pytest.raises(IndexError):
        wrong(torch.ones(2, device="cuda"))


def test_pytorchs_operators_for_cuda_alone_have_shapes(gpus: Any) -> None:
    q = torch.ones(1, 8, 2, 16, device="cuda", dtype=torch.half)
    out, sums, *_ = torch.ops.aten._flash_attention_forward(q, q, q, None, None, 8, 8, 0.0, False, False)

    assert (out.shape, out.dtype, out.device) == (q.shape, torch.half, torch.device("cuda:0"))
    assert sums.dtype == torch.float32
    assert torch._fused_dropout(torch.ones(2, device="cuda:1"), 0.5)[0].device == torch.device("cuda:1")


@pytest.fixture
def triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Enough of Triton to launch a kernel of; imported after the GPUs are there."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    package = tmp_path / "triton" / "runtime"
    package.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "jit.py").write_text(
        "class JITFunction:\n"
        "    def __init__(self, fn):\n        self.fn = fn\n"
        "    def run(self, *args, grid, warmup, **kwargs):\n        raise RuntimeError('0 active drivers')\n"
        "    def __getitem__(self, grid):\n"
        "        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda: __import__("triton.runtime.jit", fromlist=["jit"])
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        del sys.modules[name]


def test_a_triton_kernel_is_launched_on_the_current_gpu(triton: Any) -> None:
    finders = list(sys.meta_path)
    with samedevice.virtual_gpus(2) as engine:
        kernel = triton().JITFunction(lambda x, y: None)
        x, y = torch.ones(2, device="cuda:1"), torch.ones(2, device="cuda:1")
        with pytest.raises(RuntimeError, match="illegal memory access"):
            kernel[(1,)](x, y)
        with pytest.raises(ValueError, match=r"cannot be accessed from Triton \(cpu tensor\?\)"):
            kernel[(1,)](x.cpu(), 2)
        with torch.cuda.device(1):
            kernel[(1,)](x, y)
        assert any(
            note.startswith("the Triton kernel `<lambda>` was not run") for note in engine.session.notes
        )
    with pytest.raises(RuntimeError, match="0 active drivers"):
        kernel[(1,)](x, y)

    assert sys.meta_path == finders


def test_a_kernel_of_the_jiterator_is_judged_and_not_run(gpus: Any) -> None:
    kernel = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T twice(T x, T y) { return x + 2 * y; }"
    )
    x = torch.ones(2, 1, device="cuda:1")

    assert kernel(x, torch.ones(3, device="cuda:1", dtype=torch.double)).shape == (2, 3)
    with pytest.raises(RuntimeError, match="at least two devices, cuda:1 and cpu"):
        kernel(x, torch.ones(2))
    assert any("`twice` of `torch.cuda.jiterator` was not run" in note for note in gpus.session.notes)
