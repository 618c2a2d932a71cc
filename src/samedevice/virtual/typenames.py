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
_SCALARS: Final = re.compile(r"^expected scalar type \w+ but found \w+$")
_CONVOLUTIONS: Final = frozenset(
    {
        torch.conv1d, torch.conv2d, torch.conv3d, torch.conv_transpose1d, torch.conv_transpose2d,
        torch.conv_transpose3d,
    }
)  # fmt: skip


def correct(error: BaseException, engine: "Engine", func: Any, args: Any, kwargs: Any) -> None:
    """Word the error of a call on a GPU as CUDA does."""
    if len(error.args) != 1 or not isinstance(error.args[0], str) or hasattr(error, "samedevice_refusal"):
        return
    text = error.args[0]
    found = _OF_THE_HOST.sub(lambda match: "CUDA" if match[0] == "CPU" else "torch.cuda.", text)
    for pattern, words in _SENTENCES:
        found = pattern.sub(words, found)
    if func in _CONVOLUTIONS and _SCALARS.match(text):
        operands = [value for value in args[:2] if isinstance(value, torch.Tensor)]
        if len(operands) == 2 and operands[0].dtype != operands[1].dtype:
            with torch._C.DisableTorchFunction():
                types = [wording.type_name(tensor, 0) for tensor in operands]
            found = f"Input type ({types[0]}) and weight type ({types[1]}) should be the same"
    if found != text:
        device = engine.device_of_call((func, args, kwargs or {}))
        if device is not None and device >= 0:
            error.args = (found,)
