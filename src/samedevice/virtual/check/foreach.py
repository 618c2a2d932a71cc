"""`torch._foreach_*`: lists on different devices fall back to the plain operation, pair by pair."""

from samedevice.virtual.check import exact, tensor_iterator
from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_name

#: plain operations with the generated check: wrapper name by `_foreach` name
_EXACT = {
    "clamp_max": ("wrapper_CUDA_clamp_max_Tensor", "wrapper_CUDA_clamp_max__Tensor", ("self", "max")),
    "clamp_min": ("wrapper_CUDA_clamp_min_Tensor", "wrapper_CUDA_clamp_min__Tensor", ("self", "min")),
    "maximum": ("wrapper_CUDA_clamp_min_Tensor", "wrapper_CUDA_clamp_min__Tensor", ("self", "min")),
    "minimum": ("wrapper_CUDA_clamp_max_Tensor", "wrapper_CUDA_clamp_max__Tensor", ("self", "max")),
    "mm": ("wrapper_CUDA_mm", "wrapper_CUDA_mm", ("self", "mat2")),
}


def judge(call: Call) -> Refusal | None:
    """The first pair that the plain operation refuses."""
    plain = call.base.removeprefix("_foreach_").removesuffix("_")
    if plain in ("copy", "zero", "clone"):
        return None
    written = [parameter.name for parameter in call.signature.parameters if parameter.kind == "list"]
    lists = [call.many(name) for name in written if not (call.many(name) and call.many(name)[0].keyword)]
    lists = [operands for operands in lists if operands]
    in_place = call.base.endswith("_")
    refusal = _judge_scalars(call, lists, in_place)
    if refusal is not None:
        return refusal
    if len({len(operands) for operands in lists}) != 1:
        return None
    for pair in zip(*lists, strict=True):
        refusal = _judge_pair(call, plain, list(pair), in_place)
        if refusal is not None:
            return refusal
    return None


def _judge_pair(call: Call, plain: str, pair: list[Operand], in_place: bool) -> Refusal | None:
    if plain in _EXACT:
        functional, mutating, names = _EXACT[plain]
        return exact.judge_as(call, [*pair], mutating if in_place else functional, names)
    outputs = pair[:1] if in_place else []
    part = Call(call.signature, call.values, call.operands)
    scalars = plain in tensor_iterator.CPU_SCALARS
    return tensor_iterator.compare(part, outputs, pair, scalars)


def _judge_scalars(call: Call, lists: list[list[Operand]], in_place: bool) -> Refusal | None:
    """A single tensor that stands for numbers."""
    scalars = call.one("scalars")
    if scalars is not None and scalars.device != CPU:
        message = f"Expected scalars to be on CPU, got {device_name(scalars.device)} instead."
        return call.refuse("foreach-scalars", message, common=CPU, blamed=scalars)
    if not call.name.endswith((".Tensor", ".Tensor_out")) or not lists:
        return None
    other = call.one("other")
    if other is None or other.is_list or other.device == CPU:
        return None
    tensors = lists[0]
    if len({operand.device for operand in tensors}) > 1:
        # the slow path: each element with the scalar
        for operand in tensors:
            outputs = [operand] if in_place else []
            refusal = tensor_iterator.compare(call, outputs, [operand, other], True)
            if refusal is not None:
                return refusal
        return None
    expected = tensors[0].device
    if expected == other.device:
        return None
    plain = call.base.removeprefix("_foreach_").removesuffix("_")
    verb = "is expected" if in_place and plain in ("mul", "div") else "expected"
    message = f"scalar tensor {verb} to be on {device_name(expected)} but is on {device_name(other.device)}"
    return call.refuse("foreach-scalars", message, common=expected, blamed=other)
