"""Convolutions: cuDNN compares tensor types; a CPU input goes by oneDNN's choice, or to a slow kernel."""

from collections.abc import Sequence
from typing import Any

import torch

from samedevice.virtual.check import exact, wording
from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU


def judge(call: Call) -> Refusal | None:
    source, weight, bias = call.one("input") or call.one("self"), call.one("weight"), call.one("bias")
    if source is None or weight is None or not _shapes_fit(call, source, weight, bias):
        return None
    if source.device == CPU:
        return _judge_on_cpu(call, source, weight, bias)
    if _is_depthwise(call, source, weight):
        method = "wrapper_CUDA__conv_depthwise3d" if source.dim == 5 else "wrapper_CUDA___conv_depthwise2d"
        return exact.judge_as(call, [source, weight, bias], method, ("self", "weight", "bias"))
    if not torch.backends.cudnn.enabled or _output_padding_is_big(call):
        return _judge_slow(call, source, weight, bias)
    refusal = _judge_types(call, source, weight, bias, "")
    if refusal is not None:
        return refusal
    suffix = "_transpose" if call.values.get("transposed") else ""
    return exact.judge_as(
        call, [source, weight], f"wrapper_CUDA__cudnn_convolution{suffix}", ("self", "weight")
    )


def _judge_types(
    call: Call, source: Operand, weight: Operand, bias: Operand | None, or_else: str
) -> Refusal | None:
    """`check_input_same_type_as_parameters`: device type and element type, not the index."""
    expected = wording.type_name(source.tensor, source.device)
    for name, operand in (("weight", weight), ("bias", bias)):
        if operand is None:
            continue
        found = wording.type_name(operand.tensor, operand.device)
        if found != expected and (operand.device >= 0) != (source.device >= 0):
            message = f"Input type ({expected}) and {name} type ({found}) should be the same"
            if or_else:
                message += f" or input should be a MKLDNN tensor and {name} is a dense tensor"
            return call.refuse("conv", message, common=source.device, blamed=operand)
    return None


def _judge_on_cpu(call: Call, source: Operand, weight: Operand, bias: Operand | None) -> Refusal | None:
    if _picks_onednn(call, source, weight):
        return _judge_types(call, source, weight, bias, "mkldnn")
    return _judge_slow(call, source, weight, bias)


def _judge_slow(call: Call, source: Operand, weight: Operand, bias: Operand | None) -> Refusal | None:
    """The kernels without a vendor library behind them; all have the generated check."""
    space = source.dim - 2
    transposed = bool(call.values.get("transposed"))
    dilated = any(step != 1 for step in _ints(call, "dilation"))
    if transposed:
        method = "wrapper_CUDA__slow_conv_transpose3d" if space == 3 else "wrapper_CUDA_slow_conv_transpose2d"
    elif dilated:
        method = f"wrapper_CUDA__slow_conv_dilated{3 if space == 3 else 2}d"
    elif space == 3:
        if exact.judge_as(call, [source, weight, bias], "") is None:
            return None
        blamed = next(operand for operand in (source, weight, bias) if operand and operand.device >= 0)
        message = wording.cannot_run("aten::slow_conv3d_forward")
        return call.refuse(
            "conv", message, common=source.device, blamed=blamed, exception=NotImplementedError
        )
    else:
        method = "wrapper_CUDA___slow_conv2d_forward"
    return exact.judge_as(call, [source, weight, bias], method, ("self", "weight", "bias"))


def _ints(call: Call, name: str) -> Sequence[int]:
    value: Any = call.values.get(name, ())
    return value if isinstance(value, (list, tuple)) else (value,)


def _output_padding_is_big(call: Call) -> bool:
    """No vendor library takes it."""
    stride, padding = _ints(call, "stride"), _ints(call, "output_padding")
    return bool(call.values.get("transposed")) and any(
        extra >= stride[position % len(stride)] for position, extra in enumerate(padding)
    )


def _shapes_fit(call: Call, source: Operand, weight: Operand, bias: Operand | None) -> bool:
    """`check_shape_forward` would pass."""
    groups = int(call.values.get("groups", 1))
    shape, kernel = source.shape, weight.shape
    if len(shape) != len(kernel) or len(shape) < 3 or groups <= 0 or kernel[0] < groups:
        return False
    if call.values.get("transposed"):
        channels, features = kernel[0], kernel[1] * groups
    else:
        channels, features = kernel[1] * groups, kernel[0]
        if kernel[0] % groups:
            return False
        padding, dilation = _ints(call, "padding"), _ints(call, "dilation")
        for position, size in enumerate(shape[2:]):
            pad = padding[position % len(padding)] if padding else 0
            step = dilation[position % len(dilation)] if dilation else 1
            if size + 2 * pad < step * (kernel[2 + position] - 1) + 1:
                return False
    return shape[1] == channels and (bias is None or bias.shape == (features,))


def _is_depthwise(call: Call, source: Operand, weight: Operand) -> bool:
    """The backend for depthwise kernels; cuDNN takes halves and channels-last instead."""
    groups = int(call.values.get("groups", 1))
    if call.values.get("transposed") or groups == 1:
        return False
    if source.shape[1] != groups or weight.shape[0] % groups:
        return False
    if not torch.backends.cudnn.enabled:
        return True
    if _is_channels_last(source) or _is_channels_last(weight):
        return False
    # cuDNN is picked for wide undilated convolutions of halves
    halves = source.tensor.dtype == weight.tensor.dtype == torch.float16
    wide = source.dim == 4 and source.shape[1] >= 32
    dilated = any(step != 1 for step in _ints(call, "dilation"))
    return not (halves and wide and not dilated and len(set(_ints(call, "stride"))) == 1)


def _is_channels_last(operand: Operand) -> bool:
    tensor = operand.tensor
    if tensor.dim() not in (4, 5) or tensor.is_contiguous():
        return False
    layout = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
    return bool(tensor.is_contiguous(memory_format=layout))


def _picks_onednn(call: Call, source: Operand, weight: Operand) -> bool:
    """`use_mkldnn` of Convolution.cpp for an input on the CPU."""
    if not torch.backends.mkldnn.is_available() or not getattr(torch.backends.mkldnn, "enabled", True):
        return False
    if _output_padding_is_big(call):
        return False
    stride = _ints(call, "stride")
    kind = source.tensor.dtype
    if kind in (torch.bfloat16, torch.float16):
        ok = getattr(
            torch.ops.mkldnn, f"_is_mkldnn_{'bf16' if kind == torch.bfloat16 else 'fp16'}_supported", None
        )
        return bool(ok is not None and ok())
    if kind != torch.float32:
        return False
    # one-dimensional convolutions are computed as two-dimensional ones of height 1
    shape, kernel = source.shape, weight.shape
    if len(shape) == 3:
        shape, kernel = (*shape[:2], 1, shape[2]), (*kernel[:2], 1, kernel[2])
    strided = any(step != 1 for step in stride)
    dilated = any(step != 1 for step in _ints(call, "dilation"))
    worth_it = (
        strided
        or dilated
        or shape[0] >= 16
        or kernel[-1] != 1
        or kernel[-2] != 1
        or torch.get_num_threads() > 1
    )
    large = (
        int(call.values.get("groups", 1)) > 1
        or (kernel[-1] > 3 and kernel[-2] > 3)
        or shape[0] > 1
        or shape[0] * shape[1] * shape[2] * shape[3] > 20480
    )
    return worth_it and large
