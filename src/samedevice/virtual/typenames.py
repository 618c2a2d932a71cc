"""Wrong element types in CUDA's words.

That element types do not fit is the same mistake on the CPU, and its kernels refuse it; only their sentences
differ, and C++ names the types of the CPU, where CUDA names its own.
"""

import re
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.check import wording

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_OF_THE_HOST: Final = re.compile(
    r"torch\.(?=(?:sparse\.)?(?:Byte|Char|Double|Float|Half|Int|Long|Short)Tensor\b)|\bCPU(?=[A-Z]\w*Type\b)"
)
#: the CPU's words → CUDA's
_SENTENCES: Final = (
    (
        re.compile(r"^expected m1 and m2 to have the same dtype"),
        "expected mat1 and mat2 to have the same dtype",
    ),
    (re.compile(r"( should be the same) or input should be a MKLDNN tensor and .*$"), r"\1"),
    (
        re.compile(r"^masked_fill_? only supports boolean masks, but got mask with dtype (\w)(\w*)$"),
        lambda match: f"masked_fill only supports boolean masks, but got dtype {match[1].upper()}{match[2]}",
    ),
    (re.compile(r"^(masked_scatter)_?(: expected self and source .* but got) ?"), r"\1_\2 "),
)
#: kernel of the CPU → CUDA's, as both name them when they have nothing for an element type
_KERNELS: Final = {
    "GeluKernelImpl": "GeluCUDAKernelImpl",
    "addmm_impl_cpu_": "addmm_cuda",
    "addmv_impl_cpu": "addmv_impl_cuda",
    "avg_pool2d": "avg_pool2d_out_cuda_frame",
    "baddbmm": "baddbmm_cuda",
    "batch_norm": "batchnorm_forward",
    "binary_cross_entropy": "binary_cross_entropy_out_cuda",
    "bmm": "baddbmm_cuda",
    "leaky_relu_cpu": "leaky_relu_cuda",
    "lerp_kernel_scalar": "lerp_cuda",
    "log_softmax_kernel_impl": "host_softmax",
    "log_softmax_lastdim_kernel_impl": "host_softmax",
    "max_pool2d": "max_pool2d_with_indices_out_cuda_frame",
    "mse_cpu": "mse_cuda",
    "nll_loss_out_frame": "nll_loss_forward_reduce_cuda_kernel_2d",
    "normal_kernel_cpu": "normal_kernel_cuda",
    "round_vml_cpu": "round_cuda",
    "silu_cpu": "silu_cuda",
    "smooth_l1_cpu": "smooth_l1_cuda",
    "softmax_kernel_impl": "host_softmax",
    "softmax_lastdim_kernel_impl": "host_softmax",
    "upsample_nearest2d_channels_last": "upsample_nearest2d_out_frame",
}
_MISSING: Final = re.compile(r"^\"(\w+)\"(?= not implemented for ')")
_CAST: Final = re.compile(r"^result type Float can't be cast to the desired output type (\w+)$")
#: cells whose two products are one kernel on CUDA
_CELLS: Final = frozenset({torch.gru_cell, torch.lstm_cell})
_PRODUCT: Final = re.compile(r"^mat1 and mat2 must have the same dtype, but got (\w+) and (\w+)$")
#: as C++ calls the types
_IN_C: Final = {
    "BFloat16": "c10::BFloat16", "Bool": "bool", "Byte": "unsigned char", "Char": "signed char",
    "Double": "double", "Float": "float", "Half": "c10::Half", "Int": "int", "Long": "long int",
    "Short": "short int",
}  # fmt: skip
_SCALARS: Final = re.compile(r"^expected scalar type \w+ but found \w+$")
_CONVOLUTIONS: Final = frozenset(
    {
        torch.conv1d, torch.conv2d, torch.conv3d, torch.conv_transpose1d, torch.conv_transpose2d,
        torch.conv_transpose3d,
    }
)  # fmt: skip


def correct(error: Exception, engine: "Engine", func: Any, args: Any, kwargs: Any) -> Exception:
    """The error of a call on a GPU as CUDA words it: the same one, unless CUDA's is of another class."""
    if len(error.args) != 1 or not isinstance(error.args[0], str) or hasattr(error, "samedevice_refusal"):
        return error
    text = error.args[0]
    found = _OF_THE_HOST.sub(lambda match: "CUDA" if match[0] == "CPU" else "torch.cuda.", text)
    for pattern, words in _SENTENCES:
        found = pattern.sub(words, found)
    found = _MISSING.sub(lambda match: f'"{_KERNELS.get(match[1], match[1])}"', found)
    if func in _CELLS and (product := _PRODUCT.match(text)) is not None:
        first, second = (_IN_C.get(name, name) for name in product.groups())
        found = f"expected mat1 and mat2 to have the same dtype, but got: {first} != {second}"
    other: Exception | None = None
    if func is torch.dropout and (cast := _CAST.match(text)) is not None:
        other = NotImplementedError(f"\"fused_dropout\" not implemented for '{cast[1]}'")
    if func in _CONVOLUTIONS and _SCALARS.match(text):
        operands = [value for value in args[:2] if isinstance(value, torch.Tensor)]
        if len(operands) == 2 and operands[0].dtype != operands[1].dtype:
            with torch._C.DisableTorchFunction():
                types = [wording.type_name(tensor, 0) for tensor in operands]
            found = f"Input type ({types[0]}) and weight type ({types[1]}) should be the same"
    if found != text or other is not None:
        device = engine.device_of_call((func, args, kwargs or {}))
        if device is not None and device >= 0:
            if other is not None:
                return other
            error.args = (found,)
    return error
