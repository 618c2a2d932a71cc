"""CUDA's own sentences, for the torch release at hand."""

import functools
import re
from typing import Any, Final

import torch

from samedevice.virtual.tags import META, device_name

#: (major, minor) of the running torch
RELEASE: Final = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])

TOO_MANY_SCALARS: Final = "Trying to pass too many CPU scalars to non-CPU kernel!"
CPU_IN_GPU_KERNEL: Final = (
    "CUDA_tensor_apply2: Expected tensors to have CUDA DeviceType, but got tensors with type cpu and cpu"
)


def generated_check(argument: str, device: int, common: int, method: str) -> str:
    """The check that torchgen writes in front of a CUDA kernel."""
    start = "Expected all tensors to be on the same device, but "
    here, there = device_name(device), device_name(common)
    if RELEASE >= (2, 8):
        return (
            f"{start}got {argument} is on {here}, different from other tensors on {there} "
            f"(when checking argument in method {method})"
        )
    return (
        f"{start}found at least two devices, {there} and {here}! "
        f"(when checking argument for argument {argument} in method {method})"
    )


def tensor_iterator(common: int, device: int) -> str:
    return (
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{device_name(common)} and {device_name(device)}!"
    )


def device_type(device: int) -> str:
    if device >= 0:
        return "cuda"
    return "meta" if device == META else "cpu"


_TYPE_NAMES: Final = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
    torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
    torch.complex32: "ComplexHalf",
}  # fmt: skip


def scalar_name(tensor: Any) -> str:
    """ "Float", "Half": the element type as C++ prints it."""
    return _TYPE_NAMES.get(tensor.dtype) or str(tensor.dtype).removeprefix("torch.").capitalize()


#: element types whose C++ names are translated to Python's in exceptions
_LEGACY: Final = frozenset("Byte Char Double Float Half Int Long Short".split())


def type_name(tensor: Any, device: int) -> str:
    """As exceptions write a tensor's type: "torch.cuda.FloatTensor", but "CUDABFloat16Type"."""
    if scalar_name(tensor) not in _LEGACY:
        return f"{'CUDA' if device >= 0 else 'CPU'}{scalar_name(tensor)}Type"
    where = ".cuda" if device >= 0 else ""
    layout = ".sparse" if tensor.layout == torch.sparse_coo else ""
    return f"torch{where}{layout}.{scalar_name(tensor)}Tensor"


def cannot_run(operator: str, backend: str = "CUDA") -> str:
    """The dispatcher's sentence when an operator has no kernel for a backend."""
    return (
        f"Could not run '{operator}' with arguments from the '{backend}' backend. This could be because the "
        "operator doesn't exist for this backend, or was omitted during the selective/custom build process "
        "(if using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
        f"https://fburl.com/ptmfixes for possible resolutions. '{operator}' is only available for these "
        f"backends: [{', '.join(_backends_of(operator))}]."
    )


@functools.lru_cache(maxsize=64)
def _backends_of(operator: str) -> tuple[str, ...]:
    try:
        table = torch._C._dispatch_dump_table(operator)
    except RuntimeError:
        return ("CPU",)
    return tuple(dict.fromkeys(line.split(":")[0] for line in table.splitlines() if ":" in line)) or ("CPU",)


@functools.lru_cache(maxsize=1)
def source_root() -> str:
    """Where the wheel's builders had PyTorch's sources: internal asserts print it."""
    try:
        table = torch._C._dispatch_dump_table("aten::add.Tensor")
    except RuntimeError:
        table = ""
    match = re.search(r"registered at (\S+?)/aten/src/ATen/core", table)
    return match.group(1) if match else "/__w/pytorch/pytorch"


def loops_assert(argument: int) -> str:
    """The kernel launcher's own assertion, met where no check stands before it."""
    return (
        f'iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at "{source_root()}/aten/src/ATen/native/cuda/'
        f'Loops.cuh":118, please report a bug to PyTorch. argument {argument}: expected a CUDA device but '
        "found cpu"
    )


def generator_type(expected: str, found: str) -> str:
    return f"Expected a '{expected}' device type for generator but found '{found}'"


def expected_true(condition: str) -> str:
    """A TORCH_CHECK without a text of its own."""
    return (
        f"Expected {condition} to be true, but got false.  (Could this error message be improved?  If so, "
        "please report an enhancement request to PyTorch.)"
    )
