"""Kernels of the `c10d` operators: judge the operands, let gloo carry the data.

`ReduceOp.AVG`, which gloo has not, is a sum and a division. Results of the extra work are put in
place when the transfer is complete, so that asynchronous collectives stay asynchronous.
"""

import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from samedevice.virtual.devices import use_gpu
from samedevice.virtual.distributed import normalization
from samedevice.virtual.distributed.checks import Judge, Operands
from samedevice.virtual.distributed.works import after, each
from samedevice.virtual.patches import Patches

_Tensors = list[torch.Tensor]
_SUM: Final = dist.ReduceOp.SUM
#: types that gloo does not carry as they are
_BYTES: Final = frozenset(
    dtype
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint16", "int16")
    if (dtype := getattr(torch, name, None)) is not None
)


class Collectives:
    """The operators of `c10d`, replaced while a group on virtual GPUs exists."""

    def __init__(self, activation: Any, patches: Patches) -> None:
        from samedevice.virtual.distributed import nccl

        self.engine = activation.engine
        self.judge = Judge(self.engine)
        self.judge.host, self.judge.physical = nccl.host, nccl.physical
        self._patches = patches
        self._library: Any = None
        #: keeps what Python adds to the backends alive while C++ holds them
        self._adopted: list[Any] = []

    def adopt(self, backend: Any) -> None:
        """Take over the collectives of a new NCCL backend."""
        self._adopted.append(backend)
        if self._library is not None:
            return
        library = torch.library.Library("c10d", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are replaced is the point
            for name in _KERNELS:
                if hasattr(torch.ops.c10d, name):
                    library.impl(name, getattr(self, name), "CPU")
        self._library = library
        missing = torch.library.Library("aten", "IMPL")
        for name, kernel in normalization.KERNELS.items():
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU"):
                missing.impl(name, kernel, "CPU")
        self._patches.on_undo(library._destroy)
        self._patches.on_undo(missing._destroy)
        self._patches.on_undo(self._adopted.clear)

    def forget(self, backend: Any) -> None:
        """A group was destroyed."""
        self._adopted[:] = [known for known in self._adopted if known is not backend]

    # -- running -----------------------------------------------------------------------------------------

    def _run(
        self,
        group: Any,
        operands: Operands,
        transfer: Callable[[Any], Any],
        finish: Callable[[], Any] | None = None,
    ) -> Any:
        """Judge, transfer, finish; the work as C++ wants it."""
        backend = self.judge.backend(group, operands)
        with self.engine.undisturbed():
            work = transfer(backend)
            if finish is not None:
                work = after(work, finish, [t for _, t in operands.outputs or operands.inputs])
        if getattr(backend, "claim", None) is not None:
            self.judge.decide(backend, work)
        if getattr(backend, "coalesced", None) is not None:
            backend.coalesced.append(work)
        return work.boxed()

    def _average(self, group: Any, reduce_op: Any, outputs: Sequence[torch.Tensor]) -> Any:
        """(operation that gloo does, what is to be done to its results)."""
        operation = dist.ReduceOp(dist.ReduceOp.RedOpType(reduce_op.op()))
        if operation != dist.ReduceOp.AVG or not any(
            isinstance(group._get_backend(device), dist.ProcessGroupNCCL) for device in group._device_types
        ):
            return operation, None
        size = group.size()

        def divide() -> None:
            for tensor in outputs:
                if tensor.is_floating_point() or tensor.is_complex():
                    tensor.div_(size)
                else:
                    tensor.div_(size, rounding_mode="trunc")

        return _SUM, divide

    def barrier(self, group: Any, backend: Any, options: Any) -> Any:
        """`barrier()`: NCCL sums a number on a GPU, the one named, used or guessed."""
        named = list(getattr(options, "device_ids", None) or ())
        device = named[0] if named else self.judge.gpu_for_barrier(backend, group)
        use_gpu(self.engine.machine, device)
        self.judge.join(backend, device, group)
        with self.engine.undisturbed():
            work = backend.barrier(options or c10d.BarrierOptions())
        self.judge.decide(backend, work)
        return work

    # -- the operators -----------------------------------------------------------------------------------

    def allreduce_(
        self, tensors: _Tensors, group: Any, op: Any, sparse: Any, async_op: bool = True, timeout: int = -1
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        operation, finish = self._average(group, op, tensors)
        options = _options(c10d.AllreduceOptions, timeout, async_op, reduceOp=operation)
        named = _named("tensor", tensors)
        work = self._run(group, Operands(named, (), named), lambda b: b.allreduce(tensors, options), finish)
        return tensors, work

    def allreduce_coalesced_(
        self, tensors: _Tensors, group: Any, op: Any, async_op: bool = True, timeout: int = -1
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        operation, finish = self._average(group, op, tensors)
        options = _options(c10d.AllreduceCoalescedOptions, timeout, async_op, reduceOp=operation)
        named = _named("tensors", tensors)
        operands = Operands(named, (), named, "Expected list of tensors on the same device")
        return self._run(group, operands, lambda b: b.allreduce_coalesced(tensors, options), finish)

    def broadcast_(
        self,
        tensors: _Tensors,
        group: Any,
        root: int,
        root_tensor: int,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.BroadcastOptions, timeout, async_op, rootRank=root, rootTensor=root_tensor)
        named = _named("tensor", tensors)
        carried = _carried(tensors)
        operands = Operands(named, (), named, rooted=True)
        work = self._run(group, operands, lambda b: b.broadcast(carried, options))
        return tensors, work

    def reduce_(
        self,
        tensors: _Tensors,
        group: Any,
        op: Any,
        root: int,
        root_tensor: int,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        operation, finish = self._average(group, op, tensors if group.rank() == root else [])
        options = _options(
            c10d.ReduceOptions, timeout, async_op, reduceOp=operation, rootRank=root, rootTensor=root_tensor
        )
        named = _named("tensor", tensors)
        operands = Operands(named, (), named, rooted=True)
        return self._run(group, operands, lambda b: b.reduce(tensors, options), finish)

    def allgather_(
        self, outputs: list[_Tensors], inputs: _Tensors, group: Any, async_op: bool = True, timeout: int = -1
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.AllgatherOptions, timeout, async_op)
        named = _named("tensor", inputs)
        operands = Operands(named, _named("tensor_list", _flat(outputs)), named, nested="tensor_list")
        lists, sources = [_carried(o) for o in outputs], _carried(inputs)
        work = self._run(group, operands, lambda b: _allgather(b, lists, sources, options))
        return outputs, work

    def _allgather_base_(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        group: Any,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.AllgatherOptions, timeout, async_op)
        source, target = (("input_tensor", input),), (("output_tensor", output),)
        to, given = _carried([output, input])
        work = self._run(
            group,
            Operands(source, target, (*source, *target)),
            lambda b: b._allgather_base(_line(to), _line(given), options),
        )
        return output, work

    def allgather_coalesced_(
        self, outputs: list[_Tensors], inputs: _Tensors, group: Any, async_op: bool = True
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.AllgatherOptions, -1, async_op)
        operands = Operands(_named("inputs", inputs), _named("outputs", _flat(outputs)))
        return self._run(group, operands, lambda b: b.allgather_coalesced(outputs, inputs, options))

    def allgather_into_tensor_coalesced_(
        self, outputs: _Tensors, inputs: _Tensors, group: Any, async_op: bool = True
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.AllgatherOptions, -1, async_op)
        operands = Operands(_named("inputs", inputs), _named("outputs", outputs))
        targets, sources = _carried(outputs), _carried(inputs)
        return self._run(
            group,
            operands,
            lambda b: each(
                [
                    b._allgather_base(_line(o), _line(i), options)
                    for o, i in zip(targets, sources, strict=True)
                ]
            ),
        )

    def reduce_scatter_(
        self,
        outputs: _Tensors,
        inputs: list[_Tensors],
        group: Any,
        op: Any,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        operation, finish = self._average(group, op, outputs)
        options = _options(c10d.ReduceScatterOptions, timeout, async_op, reduceOp=operation)
        target = _named("output", outputs)
        operands = Operands(_named("input_list", _flat(inputs)), target, target, nested="input_list")
        work = self._run(group, operands, lambda b: b.reduce_scatter(outputs, inputs, options), finish)
        return outputs, work

    def _reduce_scatter_base_(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        operation, finish = self._average(group, op, [output])
        options = _options(c10d.ReduceScatterOptions, timeout, async_op, reduceOp=operation)
        operands = Operands((("input", input),), (("output", output),))
        work = self._run(
            group, operands, lambda b: b._reduce_scatter_base(_line(output), _line(input), options), finish
        )
        return output, work

    def reduce_scatter_tensor_coalesced_(
        self,
        outputs: _Tensors,
        inputs: _Tensors,
        group: Any,
        op: Any,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        operation, finish = self._average(group, op, outputs)
        options = _options(c10d.ReduceScatterOptions, timeout, async_op, reduceOp=operation)
        operands = Operands(_named("inputs", inputs), _named("outputs", outputs))
        return self._run(
            group,
            operands,
            lambda b: each(
                [
                    b._reduce_scatter_base(_line(o), _line(i), options)
                    for o, i in zip(outputs, inputs, strict=True)
                ]
            ),
            finish,
        )

    def gather_(
        self,
        outputs: list[_Tensors],
        inputs: _Tensors,
        group: Any,
        root: int,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.GatherOptions, timeout, async_op, rootRank=root)
        source = _named("tensor", inputs)
        targets = _flat(outputs)
        operands = Operands(
            source,
            _named("gather_list", targets),
            source,
            paired=("gather", inputs[0], tuple(targets)) if targets else None,
            nested="gather_list",
            rooted=True,
        )
        lists, sources = [_carried(o) for o in outputs], _carried(inputs)
        return self._run(group, operands, lambda b: b.gather(lists, sources, options))

    def gather_into_tensor_(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        group: Any,
        root: int,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.GatherOptions, timeout, async_op, rootRank=root)
        source, target = (("input", input),), (("output", output),)
        is_root = group.rank() == root
        lists = [list(output.view(group.size(), -1).unbind())] if is_root else []
        work = self._run(
            group,
            Operands(source, target if is_root else (), source, rooted=True),
            lambda b: b.gather(lists, [input.reshape(-1)], options),
        )
        return output, work

    def scatter_(
        self,
        outputs: _Tensors,
        inputs: list[_Tensors],
        group: Any,
        root: int,
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.ScatterOptions, timeout, async_op, rootRank=root)
        # The output comes first: its GPU is the communicator's.
        sources = _flat(inputs)
        operands = Operands(
            _named("tensor", outputs),
            _named("scatter_list", sources),
            paired=("scatter", outputs[0], tuple(sources)) if sources else None,
            nested="scatter_list",
            rooted=True,
        )
        targets, lists = _carried(outputs), [_carried(i) for i in inputs]
        work = self._run(group, operands, lambda b: b.scatter(targets, lists, options))
        return outputs, work

    def alltoall_(
        self, outputs: _Tensors, inputs: _Tensors, group: Any, async_op: bool = True, timeout: int = -1
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.AllToAllOptions, timeout, async_op)
        targets, sources = _named("output_tensor_list", outputs), _named("input_tensor_list", inputs)
        pairs = [item for pair in zip(targets, sources, strict=False) for item in pair]
        operands = Operands(sources, targets, tuple(pairs), "Tensors must be on the same device")
        to, given = _carried(outputs), _carried(inputs)
        work = self._run(group, operands, lambda b: b.alltoall(to, given, options))
        return outputs, work

    def alltoall_base_(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        group: Any,
        output_sizes: list[int],
        input_sizes: list[int],
        async_op: bool = True,
        timeout: int = -1,
    ) -> Any:
        group = dist.ProcessGroup.unbox(group)
        options = _options(c10d.AllToAllOptions, timeout, async_op)
        source, target = (("input", input),), (("output", output),)
        to, given = _carried([output, input])
        return self._run(
            group,
            Operands(source, target, (*target, *source)),
            lambda b: b.alltoall_base(
                *((to, given) if output_sizes or input_sizes else (_line(to), _line(given))),
                output_sizes,
                input_sizes,
                options,
            ),
        )

    def send(self, tensors: _Tensors, group: Any, to: int, tag: int) -> Any:
        group = dist.ProcessGroup.unbox(group)
        named, carried = _named("tensor", tensors), _carried(tensors)
        operands = Operands(named, (), named, point_to_point=True)
        return self._run(group, operands, lambda b: b.send(carried, to, tag))

    def recv_(self, tensors: _Tensors, group: Any, source: int, tag: int) -> Any:
        group = dist.ProcessGroup.unbox(group)
        named, carried = _named("tensor", tensors), _carried(tensors)
        operands = Operands(named, (), named, point_to_point=True)
        return self._run(group, operands, lambda b: b.recv(carried, source, tag))

    def recv_any_source_(self, tensors: _Tensors, group: Any, tag: int) -> Any:
        group = dist.ProcessGroup.unbox(group)
        named, carried = _named("tensor", tensors), _carried(tensors)
        operands = Operands(named, (), named, point_to_point=True)
        return self._run(group, operands, lambda b: b.recv_anysource(carried, tag))


_KERNELS: Final = tuple(
    name for name in vars(Collectives) if (name.endswith("_") and not name.endswith("__")) or name == "send"
)


def _named(name: str, tensors: Sequence[torch.Tensor]) -> tuple[tuple[str, torch.Tensor], ...]:
    return tuple((name, tensor) for tensor in tensors)


def _flat(lists: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    return [tensor for row in lists for tensor in row]


def _options(kind: Any, timeout: int, async_op: bool, **values: Any) -> Any:
    options = kind()
    for name, value in values.items():
        setattr(options, name, value)
    if timeout > 0:
        options.timeout = timedelta(milliseconds=timeout)
    if hasattr(options, "asyncOp"):
        options.asyncOp = async_op
    return options


def _line(tensor: torch.Tensor) -> torch.Tensor:
    """NCCL sees memory, not shapes; gloo splits along the first dimension."""
    return tensor.view(-1) if tensor.is_contiguous() else tensor


def _carried(tensors: _Tensors) -> _Tensors:
    """Views that gloo can carry: a transfer does not look at the numbers."""
    if not any(tensor.dtype in _BYTES for tensor in tensors):
        return tensors
    with torch._C.DisableTorchFunction():
        return [t.view(torch.uint8) if t.dtype in _BYTES else t for t in tensors]


def _allgather(backend: Any, outputs: list[_Tensors], inputs: _Tensors, options: Any) -> Any:
    """NCCL gathers tensors of different sizes, too; gloo does not: one broadcast for each rank then."""
    rows = outputs[0] if outputs else []
    if len({tuple(tensor.shape) for tensor in rows}) < 2:
        return backend.allgather(outputs, inputs, options)
    works = []
    for rank, row in enumerate(rows):
        if rank == backend.rank():
            row.copy_(inputs[0])
        broadcast = c10d.BroadcastOptions()
        broadcast.rootRank = rank
        works.append(backend.broadcast([row], broadcast))
    return each(works)
