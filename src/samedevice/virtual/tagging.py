"""Saying where tensors are: makes the tags that `samedevice.virtual.tags` reads, and the births in them."""

from typing import Any, Final

import torch

from samedevice.model.scene import Action
from samedevice.virtual.errors import out_of_memory, uninitialized
from samedevice.virtual.machine import Machine, OutOfMemory
from samedevice.virtual.places import NOWHERE, here
from samedevice.virtual.provenance import Birth, roots_of
from samedevice.virtual.tags import (
    ATTRIBUTE,
    CPU,
    META,
    PLAIN,
    UNSETTLED,
    Tag,
    device_index,
    set_tag,
    tag_of,
    unwrapped,
)
from samedevice.virtual.thread_state import ThreadState, ThreadStates

_Tensor: Final = torch.Tensor
_storage_of: Final = torch._C.TensorBase.untyped_storage
_in_backward: Final = torch._C._current_graph_task_id


class GpuTag(Tag):
    """The tag of a storage on a virtual GPU: gives its bytes back when the storage dies."""

    __slots__ = ("machine",)

    def __init__(self, machine: Machine, device: int, birth: Birth | None, nbytes: int) -> None:
        machine.allocate(device, nbytes)
        self.device = device
        self.birth = birth
        self.pinned = False
        self.nbytes = nbytes
        self.machine = machine

    def __del__(self) -> None:
        # An allocation that did not fit raised before `machine` was set.
        machine = getattr(self, "machine", None)
        if machine is not None:
            machine.free(self.device, self.nbytes)


class Tagger(ThreadStates):
    """Tags tensors that exist already, and the results of calls.

    Attributes:
        machine: the virtual GPUs, whose memory the tags count.
        exact: every ATen operation is judged (the reference); otherwise the fast tier stands in front.
        stepped_over: how many mismatches the program went on after.
    """

    def __init__(self, machine: Machine, exact: bool) -> None:
        super().__init__()
        self.machine = machine
        self.exact = exact
        self.stepped_over = 0

    # -- tensors that exist ----------------------------------------------------------------------

    def device_of(self, tensor: torch.Tensor) -> int:
        """Where a tensor is; call it with torch functions disabled."""
        return device_index(tensor)

    def new_tag(self, device: int, birth: Birth | None, tensor: torch.Tensor) -> Tag:
        """A tag for the tensor's storage; counts its bytes when it is on a GPU.

        Raises:
            torch.cuda.OutOfMemoryError: they do not fit on the virtual GPU.
        """
        if device < 0:
            return Tag(device, birth)
        try:
            nbytes = _storage_of(unwrapped(tensor)).nbytes()
        except (NotImplementedError, RuntimeError):
            nbytes = 0
        return self.gpu_tag(device, birth, nbytes)

    def gpu_tag(self, device: int, birth: Birth | None, nbytes: int) -> Tag:
        """A tag for `nbytes` of GPU memory, rounded up as the caching allocator does."""
        if self.machine.in_forked_child:
            raise uninitialized()
        try:
            return GpuTag(self.machine, device, birth, (nbytes + 511) & ~511)
        except OutOfMemory as full:
            raise out_of_memory(full) from None

    def tag(self, tensor: torch.Tensor, device: int, birth: Birth | None = None) -> None:
        """Say that the tensor's storage is on `device` from now on."""
        old = tag_of(tensor)
        if birth is None and old is not None:
            birth = old.birth
        set_tag(tensor, self.new_tag(device, birth, tensor))

    def settle(self, tensor: torch.Tensor, device: int) -> None:
        """Place a tensor that nobody had placed, or that a mismatch was stepped over for."""
        tag = tag_of(tensor)
        if tag is None or tag.device != device:
            self.tag(tensor, device)

    def settle_gradient(self, gradient: torch.Tensor, tensor: torch.Tensor) -> None:
        """Place a gradient that nobody placed where its tensor is.

        After a mismatch was stepped over, the backward pass carries it on: a parameter that was
        never moved would meet a gradient from the GPU. That is the same mistake, not another one.
        """
        tag = tag_of(gradient)
        if tag is None or tag.device == UNSETTLED or self.stepped_over:
            self.settle(gradient, device_index(tensor))

    def settle_gradient_at(self, gradient: torch.Tensor, device: int) -> None:
        """Place a gradient that nobody placed on `device`."""
        tag = tag_of(gradient)
        if tag is None or tag.device == UNSETTLED:
            self.settle(gradient, device)

    def adopt(self, tensor: torch.Tensor) -> Tag:
        """The tag of a tensor that no mode saw being made: it is where C++ says, on the CPU."""
        device = META if tensor.is_meta else CPU
        if device == CPU and not self.exact and _in_backward() != -1:
            # The forward pass was not watched operation by operation: what C++ saved for this
            # backward pass was made inside functions and is where their operands were.
            device = UNSETTLED
        tag = Tag(device, Birth(device, Action.RECEIVED, "", NOWHERE))
        try:
            set_tag(tensor, tag)
        except (AttributeError, TypeError):
            pass  # a storage that allows no attribute stays untagged: on the CPU all the same
        return tag

    # -- results ---------------------------------------------------------------------------------

    def stamp_one(
        self,
        tensor: torch.Tensor,
        storage: Any,
        func: Any,
        device: int,
        births: list[Birth],
        derived: bool,
    ) -> None:
        """Tag a new tensor of the fast tier; `storage` is None where it has none of its own."""
        if tensor.is_meta:
            device = META
        if derived:
            birth = Birth(device, Action.DERIVED, func, here(3), roots_of(births))
        else:
            birth = Birth(device, Action.CREATED, func, here(3), (), False)
        if storage is None:
            if tag_of(tensor) is None:
                set_tag(tensor, self.new_tag(device, birth, tensor))
        elif device < 0:
            setattr(storage, ATTRIBUTE, Tag(device, birth))
        else:
            # Its operands are all on a GPU and so all tagged: what has no tag is new and has no attributes yet.
            # A dictionary of its own is a third of the one that CPython makes for a first attribute.
            storage.__dict__ = {ATTRIBUTE: self.gpu_tag(device, birth, storage.nbytes())}

    def stamp(
        self,
        result: Any,
        device: int,
        births: "list[Birth] | None" = None,
        derived: bool = False,
        func: Any = None,
    ) -> None:
        """Say where the new tensors of a result are; those whose storage is known stay as they are."""
        state = self.state
        if isinstance(result, _Tensor):
            self._tag_result(result, func, device, births or [], state, derived)
        elif isinstance(result, (list, tuple)):
            for item in result:
                self.stamp(item, device, births, derived, func)

    def _tag_result(
        self,
        tensor: torch.Tensor,
        func: Any,
        device: int,
        births: list[Birth],
        state: ThreadState,
        derived: bool,
    ) -> None:
        if tensor.__class__ not in PLAIN:
            tensor = unwrapped(tensor)
        try:
            storage = _storage_of(tensor)
        except (NotImplementedError, RuntimeError):
            if tag_of(tensor) is not None:
                return
            storage = None
        else:
            if getattr(storage, ATTRIBUTE, None) is not None:
                return
        if tensor.is_meta:
            device = META
        if state.action is not None:
            # A copy of a tensor that was never seen before is still a copy of it.
            parents = (state.source,) if state.source is not None else roots_of(births) or tuple(births[:1])
            birth = Birth(device, state.action, state.function or "", here(3), parents, state.explicit)
        elif derived:
            birth = Birth(device, Action.DERIVED, _maker(state, func), here(3), _same_device(births, device))
        else:
            birth = Birth(device, Action.CREATED, _maker(state, func), here(3), (), False)
        tag = self.new_tag(device, birth, tensor)
        if storage is None:
            set_tag(tensor, tag)
        else:
            setattr(storage, ATTRIBUTE, tag)


def _same_device(births: list[Birth], device: int) -> tuple[Birth, ...]:
    """The births that a result on `device` comes from: those of operands there, where there are any."""
    return roots_of([b for b in births if b.device == device] or births)


def _maker(state: ThreadState, func: Any) -> Any:
    """What made a tensor: the function that the user called, else the operation itself."""
    return func if state.call is None else state.call[0]
