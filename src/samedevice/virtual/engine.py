"""The engine of virtual GPUs: judges each operation and says where its results are.

One `Engine` serves all threads; what belongs to a thread (which function is running, what device a
factory was asked for) is in its `ThreadState`. The modes are thin: they hand every call over to
`Engine.dispatch` (ATen operations) or to the handlers of `samedevice.virtual.functions`.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from samedevice.model.diagnostic import Diagnostic
from samedevice.model.scene import Action
from samedevice.virtual import check, kernels, torchscript
from samedevice.virtual.callbacks import BUILTIN
from samedevice.virtual.errors import out_of_memory, uninitialized
from samedevice.virtual.machine import Machine, OutOfMemory
from samedevice.virtual.places import NOWHERE, here
from samedevice.virtual.provenance import Birth, Session, roots_of
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.surface import generators
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

if TYPE_CHECKING:
    from samedevice.virtual.children import Children

_Tensor: Final = torch.Tensor
_storage_of: Final = torch._C.TensorBase.untyped_storage
_DisableTorchFunction: Final = torch._C.DisableTorchFunction
_TO_COPY: Final = torch.ops.aten._to_copy.default
_CONVOLUTION: Final = torch.ops.aten.convolution.default
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


class ThreadState:
    """What one thread is doing.

    Attributes:
        call: (function, args, kwargs) of the innermost torch function seen by the function mode.
        target: device that new storages get, None when the operands decide.
        action, function: what a birth is recorded as while `target` is set.
        source: birth of the tensor that is being moved.
        explicit: whether the call named its device.
        quiet: no checks: samedevice's own operations.
        dispatch_mode: the thread's dispatch mode, which the exact tier puts on the stack.
        exact: how many exact sections the thread is in.
        recording: operator -> devices of factories, while a function is traced by `torch.jit.trace`.
        replaying: the same of the traced code that runs, empty when its devices are not known.
        refused: the last exception raised for a mismatch in traced code, whose text TorchScript drops.
        last_device: where the last operation was; a gradient nobody placed is there.
    """

    __slots__ = (
        "action",
        "call",
        "dispatch_mode",
        "exact",
        "explicit",
        "function",
        "last_device",
        "quiet",
        "recording",
        "refused",
        "replaying",
        "source",
        "target",
    )

    def __init__(self) -> None:
        self.call: tuple[Any, Any, Any] | None = None
        self.target: int | None = None
        self.action: Action | None = None
        self.function: str | None = None
        self.source: Birth | None = None
        self.explicit: bool | None = None
        self.dispatch_mode: Any = None
        self.exact = 0
        self.quiet = False
        self.refused: BaseException | None = None
        self.recording: dict[Any, set[int]] | None = None
        self.replaying: dict[Any, set[int]] | None = None
        self.last_device = CPU


class Diagnoser(Protocol):
    """Who is told of mismatches while everything is still alive."""

    def mismatch(self, refusal: Refusal, frame: FrameType, engine: "Engine") -> "Settlement | None":
        """Called at the moment of a refusal; says how to step over it, None for the default."""

    def diagnostics(self) -> list[Diagnostic]:
        """The mistakes found so far."""


class Settlement:
    """How a mismatch is stepped over: where the result goes, which tensors move for good."""

    __slots__ = ("device", "keep")

    def __init__(self, device: int | None = None, keep: "tuple[torch.Tensor, ...]" = ()) -> None:
        self.device = device
        self.keep = keep


class Engine:
    """Judges and tags the operations of one program.

    Attributes:
        machine: the virtual GPUs.
        session: what is recorded.
        on_mismatch: "raise" raises CUDA's exception; "report" tells the diagnoser and goes on.
        exact: every ATen operation is judged (the reference); otherwise the fast tier stands in front.
        leaf_moved_at: when a leaf of graphs last got data on another device (`.data =`, `Module.to`).
        alert: looks at each operation on a GPU while somebody watches (`watch`).
        on_transfer: told of each transfer: from where, to where, without blocking.
        exact_backward: Python code takes part in backward passes, so they are judged too.
        active: False once the context has been left (threads may outlive it).
    """

    def __init__(
        self,
        machine: Machine,
        session: Session,
        on_mismatch: str = "raise",
        diagnoser: Diagnoser | None = None,
        exact: bool = False,
    ) -> None:
        self.machine = machine
        self.session = session
        self.on_mismatch = on_mismatch
        self.diagnoser = diagnoser
        self.exact = exact
        self.exact_backward = exact
        self.leaf_moved_at = 0
        self.alert: Callable[[Any, Any, Any], None] | None = None
        self.on_transfer: Callable[[int, int, bool], None] | None = None
        self._watching: dict[str, Callable[[Any, Any, Any], None]] = {}
        self.active = True
        self.stepped_over = 0
        self.children: Children | None = None
        self.listeners: list[Callable[[Any], None]] = []
        self.entered_again: Callable[[], AbstractContextManager[None]] | None = None
        self._states = threading.local()

    # -- threads ---------------------------------------------------------------------------------

    @property
    def state(self) -> ThreadState:
        """The calling thread's state."""
        try:
            return self._states.state
        except AttributeError:
            state = self._states.state = ThreadState()
            return state

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Judge every ATen operation of the block: the dispatch mode is on the stack."""
        state = self.state
        mode = state.dispatch_mode
        if state.exact or mode is None:
            yield
            return
        state.exact = 1
        mode.__enter__()
        try:
            yield
        finally:
            mode.__exit__(None, None, None)
            state.exact = 0

    def diagnostics(self) -> list[Diagnostic]:
        """The mistakes found so far, each once, in the order in which they were met; children's last."""
        if self.children is not None:
            return [diagnostic for diagnostic, _ in self.children.findings()]
        return [] if self.diagnoser is None else self.diagnoser.diagnostics()

    def watch(self, name: str, look: Callable[[Any, Any, Any], None] | None) -> None:
        """Have `look(operation, args, kwargs)` called before each operation on a GPU; None: no longer."""
        if look is None:
            self._watching.pop(name, None)
        else:
            self._watching[name] = look
        looks = tuple(self._watching.values())

        def all_of_them(func: Any, args: Any, kwargs: Any) -> None:
            for each in looks:
                each(func, args, kwargs)

        self.alert = all_of_them if looks else None

    # -- tags ------------------------------------------------------------------------------------

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

    # -- operations ------------------------------------------------------------------------------

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One ATen operation: judge it, run it on the CPU, say where the results are.

        Raises:
            RuntimeError, …: CUDA would refuse the call (`on_mismatch="raise"`).
        """
        state = self.state
        operands: list[torch.Tensor] = []
        births: list[Birth] = []
        common: int | None = None
        mixed = False
        unsettled: list[torch.Tensor] | None = None
        for value in args if not kwargs else (*args, *kwargs.values()):
            cls = value.__class__
            if isinstance(value, _Tensor):
                items: Any = (value,)
            elif cls is list or cls is tuple:
                items = value
            else:
                continue
            for item in items:
                if not isinstance(item, _Tensor):
                    continue
                try:
                    tag = getattr(_storage_of(item), ATTRIBUTE, None)
                except (NotImplementedError, RuntimeError):
                    tag = tag_of(item)
                if tag is None:
                    tag = self.adopt(item)
                operands.append(item)
                if tag.birth is not None:
                    births.append(tag.birth)
                device = tag.device
                if device == UNSETTLED:
                    unsettled = unsettled or []
                    unsettled.append(item)
                elif common is None:
                    common = device
                elif device != common:
                    mixed = True
        result_device: int | None = common
        each: tuple[int, ...] | None = None  # results that live on different devices
        if (mixed or func in check.always_check) and not state.quiet:
            refusal = check.check_op(func, args, kwargs, device_index)
            if refusal is not None:
                result_device = self.refuse(refusal)
                found = check.result_device(func, args, kwargs, device_index)
                if isinstance(found, tuple):
                    each = found
            elif mixed:
                found = check.result_device(func, args, kwargs, device_index)
                if isinstance(found, tuple):
                    each = found
                result_device = (
                    found if isinstance(found, int) else check.common_device(operands, device_index)
                )
        elif mixed:
            result_device = check.common_device(operands, device_index)
        if unsettled is not None and result_device is not None:
            for item in unsettled:
                self.settle(item, result_device)
        if func in generators.BY_POSITION:
            args, kwargs = generators.by_name(func, args, kwargs)
        if kwargs and kwargs.get("generator") is not None:
            where = state.target if state.target is not None else result_device
            kwargs = self._generator(kwargs, state, where, generators.draws_nothing(func, args))

        if self.alert is not None and not state.quiet and result_device is not None and result_device >= 0:
            self.alert(func, args, kwargs)

        result = self._run(func, args, kwargs, result_device)

        if state.target is not None:
            result_device = state.target
        elif result_device is None:
            result_device = self._device_without_operands(state, func, operands)
        elif state.replaying is not None and state.call is None and func is _TO_COPY:
            # A trace holds `x.to(device)` as a plain copy; where to is not written in it.
            result_device = UNSETTLED
        if state.recording is not None and not operands:
            state.recording.setdefault(func, set()).add(result_device)
        if result_device != UNSETTLED:
            state.last_device = result_device
        if isinstance(result, _Tensor):
            self._tag_result(result, func, result_device, births, state, bool(operands))
        elif result.__class__ is tuple or result.__class__ is list:
            for i, item in enumerate(result):
                if each is not None and state.target is None:
                    result_device = each[i]
                if isinstance(item, _Tensor):
                    self._tag_result(item, func, result_device, births, state, bool(operands))
                elif item.__class__ is tuple or item.__class__ is list:
                    for inner in item:
                        if isinstance(inner, _Tensor):
                            self._tag_result(inner, func, result_device, births, state, bool(operands))
        return result

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

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: int | None) -> Any:
        on_gpu = device is not None and device >= 0
        if func.namespace not in BUILTIN:
            return kernels.run_custom(self, func, args, kwargs, on_gpu)
        if func is _CONVOLUTION and torch._C._get_tracing_state() is not None:
            with torchscript.recorded_in_the_trace():
                return func(*args, **kwargs)
        try:
            return func(*args, **kwargs)
        except NotImplementedError as error:
            if not on_gpu:
                raise
            return kernels.stand_in(self, func, args, kwargs, error)
        except RuntimeError as error:
            if "Expected a value of type 'Tensor'" not in str(error):
                raise
            return func(*_numbers_as_tensors(func, args), **kwargs)

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
            parents = (state.source,) if state.source is not None else roots_of(births)
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

    def _device_without_operands(self, state: ThreadState, func: Any, operands: list[torch.Tensor]) -> int:
        """Where a factory's result is when C++ called it and named nothing."""
        if operands:
            return state.last_device if state.last_device >= 0 else UNSETTLED
        if state.call is not None:
            device = self.device_of_call(state.call)
            return CPU if device is None else device
        if state.replaying is not None:
            noted = state.replaying.get(func, ())
            return next(iter(noted)) if len(noted) == 1 else UNSETTLED
        return UNSETTLED if _in_backward() != -1 else CPU

    def device_of_call(self, call: tuple[Any, Any, Any]) -> int | None:
        """The common device of a function's tensor arguments, None if it has none."""
        tensors = list(tensors_in(call[1]))
        tensors += tensors_in([value for name, value in call[2].items() if name != "out"])
        if not tensors:
            tensors = list(tensors_in(call[2].values()))
        if not tensors:
            return None
        return check.inner_device(call[0], tensors, device_index)

    def _generator(
        self, kwargs: dict[str, Any], state: ThreadState, device: int | None, unused: bool
    ) -> dict[str, Any]:
        """Check that the generator fits the device; put in the one that numbers are drawn from."""
        claimed = generators.claimed(kwargs["generator"])
        if not state.quiet and not unused:
            if device is None or device in (UNSETTLED, META):
                device = CPU
            kind = "cuda" if device >= 0 else "cpu"
            refusal = check.check_generator("cpu" if claimed is None else "cuda", kind)
            if refusal is not None:
                refusal.extra.setdefault("generator", kwargs["generator"])
                refusal.common = device
                self.refuse(refusal)
        return kwargs if claimed is None else {**kwargs, "generator": claimed.drawn_from}

    def plain(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A torch function that needs no handler: the composite checks, then the call itself."""
        if not self.state.exact and self.state.dispatch_mode is not None:
            with self.exactly():
                return self.plain(func, args, kwargs)
        refusal = check.check_function(func, args, kwargs, device_index)
        state = self.state
        before = state.call, state.quiet
        if refusal is not None:
            self.refuse(refusal)
            # its parts would be refused again, for the same mistake
            state.quiet = True
        state.call = (func, args, kwargs)
        try:
            return func(*args, **kwargs)
        finally:
            state.call, state.quiet = before

    # -- refusals --------------------------------------------------------------------------------

    def refuse(self, refusal: Refusal) -> int | None:
        """CUDA would refuse: raise its exception, or report it and say where the result goes.

        Raises:
            the refusal's exception: with `on_mismatch="raise"`, or when nothing can go on.
        """
        settlement = None
        if self.diagnoser is not None and not (self.stepped_over and self._is_consequence()):
            settlement = self._told(self.diagnoser, refusal, _frame_of_program())
        if self.on_mismatch == "raise" or not refusal.recoverable:
            error = refusal.error()
            if self.state.replaying is not None:
                self.state.refused = error
            raise error
        self.stepped_over += 1
        if settlement is not None:
            for tensor in settlement.keep:
                self.settle(tensor, refusal.common if settlement.device is None else settlement.device)
            if settlement.device is not None:
                return settlement.device
        tensors = [t for _, t, _ in refusal.operands]
        return check.common_device(tensors, device_index) if tensors else refusal.common

    def _told(self, diagnoser: Diagnoser, refusal: Refusal, frame: FrameType) -> "Settlement | None":
        """Tell the diagnoser; a fault of ours is said and never becomes the program's."""
        with self.undisturbed():
            try:
                return diagnoser.mismatch(refusal, frame, self)
            except Exception as fault:
                if os.environ.get("SAMEDEVICE_DEBUG"):
                    raise
                self.session.note(
                    f"a mismatch could not be explained ({type(fault).__name__}: {fault}); "
                    f"PyTorch's words: {refusal.message}"
                )
                return None

    def _is_consequence(self) -> bool:
        """In C++'s part of a backward pass after a mismatch was stepped over.

        What was put in place virtually in the forward pass meets its gradient again there; that is
        the same mistake. A mismatch in the user's own backward code is one of its own.
        """
        if _in_backward() == -1:
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_name
            if name == "_engine_run_backward":
                return True
            if frame.f_globals.get("__name__") == "samedevice.virtual.hooks":
                return False  # what a hook returns is its own doing
            if name == "apply" and frame.f_code.co_filename.endswith("function.py"):
                return False
            frame = frame.f_back
        return False

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Our own look at tensors: no checks, no births, torch functions as they are."""
        state = self.state
        before = state.quiet
        state.quiet = True
        try:
            with (
                _DisableTorchFunction(),
                torch.utils._python_dispatch._disable_current_modes(),
                torch.no_grad(),
            ):
                yield
        finally:
            state.quiet = before


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among values and in the lists, tuples and dicts directly below them."""
    for value in values:
        if isinstance(value, _Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def _numbers_as_tensors(func: Any, args: tuple[Any, ...]) -> list[Any]:
    """The arguments with traced code's numbers, which C++ hands over as such, made tensors again."""
    taken = list(args)
    for i, (value, argument) in enumerate(zip(args, func._schema.arguments, strict=False)):
        if isinstance(value, (bool, int, float, complex)) and str(argument.type) == "Tensor":
            dtype = {float: torch.float64, complex: torch.complex128}.get(type(value))
            taken[i] = torch.tensor(value, dtype=dtype)
    return taken


def _same_device(births: list[Birth], device: int) -> tuple[Birth, ...]:
    return roots_of([b for b in births if b.device == device] or births)


def _maker(state: ThreadState, func: Any) -> Any:
    """What made a tensor: the function that the user called, else the operation itself."""
    return func if state.call is None else state.call[0]


def _frame_of_program() -> FrameType:
    """The innermost frame that is not samedevice's own."""
    frame = sys._getframe(2)
    package = __name__.rpartition(".")[0]
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(package):
        frame = frame.f_back
    return frame
