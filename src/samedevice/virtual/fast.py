"""The fast tier: a call whose tensors are all in one place is run and its results tagged, no more.

A dispatch mode that does nothing already costs more than most steps can bear, so it stays off the
stack while nothing can be wrong: when all tensors of a call carry the same tag, no device rule can
refuse it, and its results are where its operands are. Everything else goes through the exact tier:
a call with mixed tags, the few functions whose results live elsewhere or that insist on the CPU,
functorch's transforms, TorchScript, and backward passes in which Python code takes part (custom
`autograd.Function`s, hooks, checkpoints, gradients that change device).

The gradients of a backward pass that C++ runs alone carry no tag; each is where the tensor is that
it is the gradient of, and is tagged when somebody looks at it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual import check, edges
from samedevice.virtual.provenance import Birth
from samedevice.virtual.tags import ATTRIBUTE, CPU, META, UNSETTLED, tag_of

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_Tensor: Final = torch.Tensor
_Parameter: Final = torch.nn.Parameter
#: called as `torch.ops.namespace.name(…)`: they may have kernels in Python
_OPERATORS: Final = frozenset({torch._ops.OpOverload, torch._ops.OpOverloadPacket})
_storage_of: Final = torch._C.TensorBase.untyped_storage
_transforms_active: Final = torch._C._are_functorch_transforms_active


def _transparent() -> frozenset[Any]:
    """Functions that make no tensor and ask for no device: they run as they are."""
    names = (
        "size stride dim ndimension numel nelement element_size storage_offset data_ptr is_contiguous "
        "is_floating_point is_complex is_signed is_conj is_neg is_inference is_set_to is_coalesced "
        "requires_grad_ retain_grad untyped_storage __len__ has_names sym_size has_storage"
    ).split()
    getters = (
        "shape dtype requires_grad layout grad_fn is_leaf ndim itemsize nbytes is_sparse is_sparse_csr "
        "is_quantized is_meta is_nested is_mkldnn is_xpu is_mps is_vulkan is_xla names _version "
        "retains_grad output_nr _backward_hooks is_mtia is_ipu is_maia name"
    ).split()
    functions = [getattr(_Tensor, name, None) for name in names]
    functions += [
        torch.numel,
        torch.is_floating_point,
        torch.is_complex,
        torch.is_tensor,
        torch.is_nonzero,
        torch.result_type,
        torch.is_same_size,
    ]
    found = {f for f in functions if f is not None and not hasattr(f, "__wrapped__")}
    for name in getters:
        descriptor = getattr(_Tensor, name, None)
        if descriptor is not None and hasattr(descriptor, "__get__") and not isinstance(descriptor, property):
            found.add(descriptor.__get__)
    return frozenset(found)


def _elsewhere() -> frozenset[Any]:
    """Functions that are judged although all their tensors agree."""
    bases = {str(op).split(".")[1] for op in check.always_check if hasattr(op, "_schema")}
    found = {f for f in check.always_check if not hasattr(f, "_schema")}
    for base in bases:
        for owner in (torch, _Tensor, torch._C._nn, torch._C._VariableFunctions):
            function = getattr(owner, base, None)
            if function is not None:
                found.add(function)
    return frozenset(found)


TRANSPARENT: Final = _transparent()
ALWAYS: Final = _elsewhere()


class FastTier:
    """Runs calls whose operands are all in one place."""

    def __init__(self, engine: "Engine", exact: Callable[[Any, Any, Any], Any]) -> None:
        self.engine = engine
        self.exact = exact

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run `func`; hand it to the exact tier when anything could be refused."""
        common: int | None = None
        births: list[Birth] = []
        for value in args if not kwargs else (*args, *kwargs.values()):
            cls = value.__class__
            if cls is _Tensor or cls is _Parameter:
                try:
                    tag = getattr(_storage_of(value), ATTRIBUTE, None)
                except (NotImplementedError, RuntimeError):
                    tag = tag_of(value)
                    if tag is None:
                        return self.exact(func, args, kwargs)
                if tag is None:
                    device = META if value.is_meta else CPU
                else:
                    device = tag.device
                    if tag.birth is not None:
                        births.append(tag.birth)
                if device != common:
                    if common is not None or device == UNSETTLED:
                        return self.exact(func, args, kwargs)
                    common = device
            elif cls is list or cls is tuple:
                device_or_none = self._common_of(value, births)
                if device_or_none is not None and device_or_none != common:
                    if common is not None or device_or_none == UNSETTLED:
                        return self.exact(func, args, kwargs)
                    common = device_or_none
            elif isinstance(value, _Tensor):
                return self.exact(func, args, kwargs)  # a subclass has a will of its own
        if (
            func in ALWAYS
            or func.__class__ in _OPERATORS
            or _transforms_active()
            or (kwargs and kwargs.get("generator") is not None)
        ):
            return self.exact(func, args, kwargs)
        engine = self.engine
        # Callbacks in the middle of the call (autocast, saved-tensor hooks) ask where its operands are.
        state = engine.state
        before = state.call
        state.call = (func, args, kwargs)
        try:
            result = func(*args, **kwargs)
        except NotImplementedError as error:
            if common is None or common < 0 or not str(error).startswith("Could not run '"):
                raise
            return self.exact(func, args, kwargs)  # CUDA may have the kernel that the CPU lacks
        finally:
            state.call = before
        cls = result.__class__
        if cls is _Tensor:
            try:
                storage = _storage_of(result)
            except (NotImplementedError, RuntimeError):
                storage = None
            if storage is None or getattr(storage, ATTRIBUTE, None) is None:
                engine.stamp_one(
                    result, storage, func, CPU if common is None else common, births, common is not None
                )
        elif cls is tuple or cls is list or isinstance(result, (_Tensor, tuple)):
            self._stamp_all(result, func, CPU if common is None else common, births, common is not None)
        return result

    def _stamp_all(self, result: Any, func: Any, device: int, births: list[Birth], derived: bool) -> None:
        """The tensors of a result that is a tuple or list, named tuples and nested ones included."""
        if isinstance(result, _Tensor):
            try:
                storage = _storage_of(result)
            except (NotImplementedError, RuntimeError, ValueError):
                storage = None
            if storage is None or getattr(storage, ATTRIBUTE, None) is None:
                self.engine.stamp_one(result, storage, func, device, births, derived)
        elif isinstance(result, (list, tuple)):
            for item in result:
                self._stamp_all(item, func, device, births, derived)

    def _common_of(self, values: Any, births: list[Any]) -> int | None:
        """The common device of a list's tensors, None without any, UNSETTLED when they differ."""
        common: int | None = None
        for value in values:
            cls = value.__class__
            if cls is _Tensor or cls is _Parameter:
                try:
                    tag = getattr(_storage_of(value), ATTRIBUTE, None)
                except (NotImplementedError, RuntimeError):
                    return UNSETTLED
                device = (META if value.is_meta else CPU) if tag is None else tag.device
                if tag is not None and tag.birth is not None and len(births) < 8:
                    births.append(tag.birth)
            elif cls is list or cls is tuple:
                inner = self._common_of(value, births)
                if inner is None:
                    continue
                device = inner
            elif isinstance(value, _Tensor):
                return UNSETTLED
            else:
                continue
            if device != common:
                if common is not None or device == UNSETTLED:
                    return UNSETTLED
                common = device
        return common


def settle_gradients(engine: "Engine", inputs: Any, gradients: Any) -> None:
    """What `autograd.grad` returns: each gradient is where its tensor is."""
    with torch._C.DisableTorchFunction():
        for tensor, gradient in zip(inputs, gradients, strict=False):
            if not isinstance(gradient, _Tensor):
                continue
            if isinstance(tensor, _Tensor):
                engine.settle_gradient(gradient, tensor)
            elif edges.is_edge(tensor):
                engine.settle_gradient_at(gradient, edges.device_of(tensor))
