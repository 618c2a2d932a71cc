"""The engine of virtual GPUs: judges each operation and says where its results are.

One `Engine` serves all threads. It is made of layers: what belongs to a thread (which function is running, what
device a factory was asked for) is in `thread_state`, where tensors are and what is recorded of their births in
`tagging`; the judging is here. The modes are thin: they hand every call over to `Engine.dispatch` (ATen operations)
or to the handlers of `samedevice.virtual.functions`.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.model.diagnostic import Diagnostic
from samedevice.virtual import check, kernels
from samedevice.virtual.machine import Machine
from samedevice.virtual.mismatches import Diagnoser, frame_of_program, is_consequence, tell
from samedevice.virtual.provenance import Birth, Session
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.surface import generators
from samedevice.virtual.tagging import Tagger
from samedevice.virtual.tags import ATTRIBUTE, CPU, META, UNSETTLED, device_index, tag_of
from samedevice.virtual.thread_state import ThreadState

if TYPE_CHECKING:
    from samedevice.virtual.children import Children

_Tensor: Final = torch.Tensor
_storage_of: Final = torch._C.TensorBase.untyped_storage
_TO_COPY: Final = torch.ops.aten._to_copy.default
_in_backward: Final = torch._C._current_graph_task_id


class Engine(Tagger):
    """Judges and tags the operations of one program.

    Attributes:
        session: what is recorded.
        on_mismatch: "raise" raises CUDA's exception; "report" tells the diagnoser and goes on.
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
        super().__init__(machine, exact)
        self.session = session
        self.on_mismatch = on_mismatch
        self.diagnoser = diagnoser
        self.exact_backward = exact
        self.leaf_moved_at = 0
        self.alert: Callable[[Any, Any, Any], None] | None = None
        self.on_transfer: Callable[[int, int, bool], None] | None = None
        self._watching: dict[str, Callable[[Any, Any, Any], None]] = {}
        self.active = True
        self.children: Children | None = None
        self.listeners: list[Callable[[Any], None]] = []
        self.entered_again: Callable[[], AbstractContextManager[None]] | None = None

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
            kwargs = self._generator(func, args, kwargs, state, where)

        if self.alert is not None and not state.quiet and result_device is not None and result_device >= 0:
            self.alert(func, args, kwargs)

        result = kernels.run(self, func, args, kwargs, result_device)

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

    def _device_without_operands(self, state: ThreadState, func: Any, operands: list[torch.Tensor]) -> int:
        """Where a factory's result is when C++ called it and named nothing."""
        if operands:
            return UNSETTLED
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
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], state: ThreadState, device: int | None
    ) -> dict[str, Any]:
        """Check that the generator fits the device; put in the one that numbers are drawn from."""
        claimed = generators.claimed(kwargs["generator"])
        if not state.quiet:
            if device is None or device in (UNSETTLED, META):
                device = CPU
            refusal = generators.misfit(func, args, claimed is not None, device)
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
        if self.diagnoser is not None and not (self.stepped_over and is_consequence()):
            settlement = tell(self, self.diagnoser, refusal, frame_of_program())
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


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among values and in the lists, tuples and dicts directly below them."""
    for value in values:
        if isinstance(value, _Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())
