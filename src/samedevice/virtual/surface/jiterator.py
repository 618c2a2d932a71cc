"""`torch.cuda.jiterator`: its kernels are CUDA code, compiled when first called."""

from typing import Any

import torch
from torch.cuda import jiterator

from samedevice.virtual.check import tensor_iterator
from samedevice.virtual.check.calls import Call, Parameter, Signature
from samedevice.virtual.patches import Patches
from samedevice.virtual.tags import device_index

_SIGNATURE = Signature("jiterator", "jiterator", (Parameter("tensors", "list", False, False),))


def install(patches: Patches, engine: Any) -> None:
    """Judge the operands as CUDA does; the kernel itself cannot be run."""

    def call(self: Any, *tensors: torch.Tensor, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            operands = Call.of(_SIGNATURE, (list(tensors),), {}, device_index)
            refusal = tensor_iterator.compare(operands, [], operands.operands, False)
        if refusal is not None:
            engine.refuse(refusal)
        engine.session.note(
            f"the CUDA kernel `{self.kernel_name}` of `torch.cuda.jiterator` was not run: its results are zeros "
            "here, and what is computed from them means nothing"
        )
        dtype = tensors[0].dtype
        for tensor in tensors[1:]:
            dtype = torch.promote_types(dtype, tensor.dtype)
        shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
        made = [torch.zeros(shape, dtype=dtype, device=tensors[0].device) for _ in range(self.num_outputs)]
        return made[0] if self.num_outputs == 1 else tuple(made)

    patches.set(jiterator._JittedFunction, "__call__", call)
