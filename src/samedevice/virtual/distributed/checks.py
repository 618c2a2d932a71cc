"""What NCCL's process group says of the operands of a collective, in its words.

The checks and their order are those of `ProcessGroupNCCL`: an operator is dispatched to the backend
of the "highest" device among its tensors, the backend checks some of them, and the first input's
GPU decides which communicator is used. Ranks that share a GPU are refused when it is formed.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist

from samedevice.virtual.refusal import Refusal
from samedevice.virtual.surface.legacy import tensor_options
from samedevice.virtual.tags import CPU, META, UNSETTLED, device_index, device_name, tag_of

if TYPE_CHECKING:
    from samedevice.virtual.distributed.nccl import ProcessGroupNCCL

#: what `getNcclDataType` does not know
_UNSUPPORTED: Final = {torch.int16: "Short"}
#: NCCL says it in other words since the release that PyTorch 2.14 brings
_SHARING_ALLOWED: Final = tuple(int(p) for p in torch.__version__.split(".")[:2]) >= (2, 14)
_TORCH: Final = os.path.dirname(torch.__file__) + os.sep
_PACKAGE: Final = __name__.rpartition(".")[0].rpartition(".")[0]


#: argument name, tensor, device
Place = tuple[str, torch.Tensor, int]


@dataclass(frozen=True, slots=True)
class Operands:
    """The tensors of one collective as NCCL's process group looks at them.

    Attributes:
        inputs, outputs: (argument name, tensor), in the order in which they are given.
        checked: those that are looked at one by one, in the order of the checks.
        same: all must be on one GPU.
        paired: (role, list) whose tensors must have the type of the first input or output.
        point_to_point: a send or receive.
        nested: names of arguments that are lists of lists, which the dispatcher does not look into.
        rooted: a rank may be through before the others have begun.
    """

    inputs: tuple[tuple[str, torch.Tensor], ...]
    outputs: tuple[tuple[str, torch.Tensor], ...] = ()
    checked: tuple[tuple[str, torch.Tensor], ...] = ()
    same: str = ""
    paired: tuple[str, torch.Tensor, tuple[torch.Tensor, ...]] | None = None
    point_to_point: bool = False
    nested: str = ""
    rooted: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A further communicator that this rank forms on a GPU which another rank has used so far.

    Attributes:
        number: which one of the group's communicators it is.
        decided: whether the collective tells what the other ranks do.
    """

    number: int
    device: int
    places: tuple[Place, ...]
    decided: bool


class Judge:
    """Finds the backend of a collective and refuses what NCCL refuses."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.host: Callable[[], str] = str
        self.physical: Callable[[int], str] = str

    # -- where tensors are --------------------------------------------------------------------------

    def places(self, named: Sequence[tuple[str, torch.Tensor]], given: bool = False) -> list[Place]:
        """Each operand with its device, as the program knows it; `given`: the program gave them itself.

        What PyTorch's C++ code made on the way has no place of its own: the output of a functional
        collective is where its input is, and a bucket of gradients is on the rank's GPU (UNSETTLED).
        """
        found = []
        origin: tuple[bool, list[torch.Tensor]] | None = (False, []) if given else None
        for i, (name, tensor) in enumerate(named):
            tag = tag_of(tensor)
            device = UNSETTLED if tag is None else tag.device
            shown = tensor
            if tensor.is_meta:
                device = META
            elif device < 0:
                origin = origin or _origin()
                internal, sources = origin
                if not internal:
                    device = CPU
                elif sources:
                    shown = sources[min(i, len(sources) - 1)]
                    device = device_index(shown)
                else:
                    device = UNSETTLED
            found.append((name, shown, device))
        return found

    def gpu_of(self, backend: Any, group: Any, devices: Sequence[int] = ()) -> int:
        """The GPU of this rank as far as one can tell."""
        bound = group.bound_device_id
        if bound is not None and bound.index is not None:
            return int(bound.index)
        for device in devices:
            if device >= 0:
                return device
        used = getattr(backend, "used", None)
        if used:
            return int(used[0])
        machine = self.engine.machine
        if machine.current:
            return int(machine.current)
        return _local_rank(backend) % int(machine.count)

    def gpu_for_barrier(self, backend: "ProcessGroupNCCL", group: Any) -> int:
        """The GPU that NCCL's process group guesses."""
        bound = group.bound_device_id
        if bound is not None and bound.index is not None:
            return int(bound.index)
        return backend.used[0] if backend.used else _global_rank(backend) % int(self.engine.machine.count)

    # -- the backend ----------------------------------------------------------------------------------

    def backend(self, group: Any, operands: Operands, given: bool = False) -> Any:
        """The backend that carries the operation out (`given` as in `places`).

        Raises:
            RuntimeError, ValueError, DistBackendError: NCCL refuses the operands (`on_mismatch="raise"`).
        """
        named = (*operands.inputs, *operands.outputs)
        places = self.places(named, given)
        devices = [device for name, _, device in places if name != operands.nested]
        kinds = {device.type: device for device in group._device_types}
        kind = "cpu" if devices and all(d == CPU for d in devices) else "cuda"
        if META in devices:
            kind = "meta"
        elif UNSETTLED in devices and not any(d >= 0 for d in devices):
            kind = "cuda" if "cuda" in kinds else "cpu"
        found = group._get_backend(kinds[kind]) if kind in kinds else None
        if found is None:
            found = group._get_backend(next(iter(kinds.values())))
            self.refuse(
                RuntimeError,
                f"No backend type associated with device type {kind}",
                places,
                self.gpu_of(found, group),
                0,
                recoverable=kind != "meta",
            )
            if isinstance(found, dist.ProcessGroupNCCL):
                self.join(found, None, group)
        elif isinstance(found, dist.ProcessGroupNCCL):
            self._check(found, group, operands, places)
        return found

    def _check(self, backend: Any, group: Any, operands: Operands, places: list[Place]) -> None:
        named = (*operands.inputs, *operands.outputs)
        order = {id(tensor): i for i, (_, tensor) in reversed(list(enumerate(named)))}
        devices = {id(tensor): places[i][2] for i, (_, tensor) in enumerate(named)}
        wanted = self.gpu_of(backend, group, [d for _, _, d in places])
        for _, tensor in operands.checked:
            if devices[id(tensor)] == CPU or tensor.layout != torch.strided:
                text = "Tensors must be CUDA and dense"
                return self._stepped_over(backend, group, ValueError, text, places, wanted, order[id(tensor)])
            if not operands.point_to_point and not _is_contiguous(tensor):
                raise ValueError("Tensors must be contiguous")
        for _, tensor in operands.inputs:
            if tensor.dtype in _UNSUPPORTED:
                raise TypeError(
                    "Input tensor data type is not supported for NCCL process group: "
                    + _UNSUPPORTED[tensor.dtype]
                )
        if operands.same:
            first = devices[id(operands.checked[0][1])]
            for _, tensor in operands.checked:
                if devices[id(tensor)] not in (first, UNSETTLED) and first != UNSETTLED:
                    error = RuntimeError if operands.same.startswith("Tensors") else ValueError
                    at = order[id(tensor)]
                    return self._stepped_over(backend, group, error, operands.same, places, wanted, at)
        if operands.paired is not None:
            role, first_tensor, others = operands.paired
            wanted_kind = tensor_options(first_tensor.dtype, device_name(devices[id(first_tensor)]))
            for i, tensor in enumerate(others):
                kind = tensor_options(tensor.dtype, device_name(devices[id(tensor)]))
                if (devices[id(tensor)] == CPU) != (devices[id(first_tensor)] == CPU):
                    text = (
                        f"ProcessGroupNCCL::{role}: invalid tensor type at index {i} "
                        f"(expected {wanted_kind}, got {kind})"
                    )
                    return self._stepped_over(
                        backend, group, ValueError, text, places, wanted, order[id(tensor)]
                    )
        first_device = places[0][2]
        if first_device == CPU:
            text = "CUDAGuardImpl initialized with non-CUDA DeviceType: cpu"
            return self._stepped_over(backend, group, RuntimeError, text, places, wanted, 0)
        for i, (_, _, device) in enumerate(places):
            if device == CPU:
                # NCCL is given the address; the GPU cannot reach it.
                text = "CUDA error: an illegal memory access was encountered\n"
                return self._stepped_over(backend, group, torch._C.AcceleratorError, text, places, wanted, i)
        if first_device >= 0:
            self.join(backend, first_device, group, places, operands.point_to_point, operands.rooted)
        return None

    def _stepped_over(
        self,
        backend: Any,
        group: Any,
        error: type[BaseException],
        text: str,
        places: list[Place],
        wanted: int,
        blamed: int,
    ) -> None:
        self.refuse(error, text, places, wanted, blamed)
        self.join(backend, None, group)

    # -- communicators -----------------------------------------------------------------------------------

    def join(
        self,
        backend: "ProcessGroupNCCL",
        device: int | None,
        group: Any,
        places: Sequence[Place] = (),
        point_to_point: bool = False,
        rooted: bool = False,
    ) -> None:
        """Form the communicator of a GPU, as the first collective on it does; `device` None: not known.

        NCCL numbers a group's communicators and each rank waits for all others to form the one of the same
        number. So ranks may exchange their GPUs when all do it in the same collective, and whether they do is
        known when that is through (`decide`).
        """
        if device is not None and device in backend.used:
            return
        bound = None if isinstance(group, str) else group.bound_device_id
        if device is not None and bound is not None and bound.index is not None and bound.index != device:
            self.refuse(
                dist.DistBackendError,
                "Attempt to perform collective on tensor not on device passed to init_process_group",
                places,
                bound.index,
                0,
            )
            device = None
        if not backend.peers and not point_to_point:
            self._meet(backend, device)
            sharing = self._sharing(backend, device)
            if sharing and not (_SHARING_ALLOWED and os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") == "1"):
                assert device is not None
                text = _sharing_text(backend.rank(), sharing[0], device)
                device = self._on_own_gpu(backend, device, text, places, sharing)
        elif device is not None and not point_to_point:
            number = len(backend.used)
            backend.store.set(f"samedevice/{number}/{backend.rank()}", self.physical(device))
            if self._sharing(backend, device):
                backend.claim = Claim(number, device, tuple(places), not rooted)
                return
        elif device is not None and self._sharing(backend, device):
            return  # the two may have exchanged their GPUs
        if device is not None and device not in backend.used:
            backend.used.append(device)

    def decide(self, backend: "ProcessGroupNCCL", work: Any) -> None:
        """Whether all ranks have formed the communicator that this one has, now that the collective is under way.

        Raises:
            DistBackendError: they have not (`on_mismatch="raise"`).
        """
        claim, backend.claim = backend.claim, None
        if claim is None:
            return
        try:
            if claim.decided:
                work.wait()
            keys = [f"samedevice/{claim.number}/{rank}" for rank in range(backend.size())]
            formed = not claim.decided or backend.store.check(keys)
        except RuntimeError:
            formed = True  # a rank is gone: nobody knows
        device = claim.device
        if not formed:
            device = self._on_own_gpu(backend, device, _waiting_text(backend, device), claim.places, [])
        if device not in backend.used:
            backend.used.append(device)

    def _on_own_gpu(
        self,
        backend: "ProcessGroupNCCL",
        device: int,
        text: str,
        places: Sequence[Place],
        sharing: list[int],
    ) -> int:
        """Another rank has the GPU: refuse, and go on as if each rank had its own.

        NCCL refuses on all ranks that share it; the report names those that are on another's.
        """
        own = self.own_gpu(backend)
        if own != device or self.engine.on_mismatch == "raise":
            self.refuse(dist.DistBackendError, text, places, own, 0)
        count = int(self.engine.machine.count)
        for rank in (*sharing, backend.rank()):
            host, _ = backend.peers[rank]
            backend.peers[rank] = (host, self.physical(rank % count))
        return own

    def _meet(self, backend: "ProcessGroupNCCL", device: int | None) -> None:
        """Tell the other ranks where this one is; they do the same."""
        rank, size = backend.rank(), backend.size()
        own = (self.host(), "" if device is None else self.physical(device))
        backend.peers[rank] = own
        if size == 1:
            return
        backend.store.set(f"samedevice/{rank}", "|".join(own))
        for other in range(size):
            if other != rank:
                host, _, gpu = backend.store.get(f"samedevice/{other}").decode().rpartition("|")
                backend.peers[other] = (host, gpu)

    def _sharing(self, backend: "ProcessGroupNCCL", device: int | None) -> list[int]:
        """Other ranks that use the GPU."""
        if device is None:
            return []
        own = (self.host(), self.physical(device))
        return [rank for rank, told in backend.peers.items() if rank != backend.rank() and told == own]

    def own_gpu(self, backend: "ProcessGroupNCCL") -> int:
        """The GPU that this rank should use."""
        if backend.used:
            return backend.used[0]
        return _local_rank(backend) % int(self.engine.machine.count)

    # -- refusals -------------------------------------------------------------------------------------------

    def refuse(
        self,
        error: type[BaseException],
        text: str,
        places: Sequence[Place],
        wanted: int,
        blamed: int,
        recoverable: bool = True,
    ) -> None:
        """Raise, or report and go on.

        Raises:
            the exception of NCCL's process group (`on_mismatch="raise"`).
        """
        shown = tuple((name, tensor, device) for name, tensor, device in places if device != UNSETTLED)
        self.engine.refuse(
            Refusal(
                error,
                text,
                "collective",
                shown,
                wanted,
                blamed if blamed < len(shown) else None,
                recoverable,
                {"rank": dist.get_rank() if dist.is_initialized() else 0},
            )
        )


def _origin() -> tuple[bool, list[torch.Tensor]]:
    """(C++ made the operands, tensors of the functional collective that made them).

    DDP's reducer and `_broadcast_coalesced` flatten tensors in C++ before they call a collective;
    a functional collective makes its output first.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name == "torch._ops":
            called = str(getattr(frame.f_locals.get("self"), "_qualified_op_name", ""))
            if called.startswith("_c10d_functional"):
                given = (*frame.f_locals.get("args", ()), *frame.f_locals.get("kwargs", {}).values())
                return True, list(_tensors(given))
        elif not name.startswith((_PACKAGE, "torch._library", "torch.utils._python_dispatch")):
            break
        frame = frame.f_back
    if frame is None:
        return True, []
    name = str(frame.f_globals.get("__name__", ""))
    within = name in ("torch.autograd.graph", "torch.distributed.utils") or name.startswith(
        "torch.nn.parallel"
    )
    return within, []


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _global_rank(backend: Any) -> int:
    return int(dist.get_rank() if dist.is_initialized() else backend.rank())


def _local_rank(backend: Any) -> int:
    given = os.environ.get("LOCAL_RANK", "")
    return int(given) if given.isdigit() else _global_rank(backend)


def _is_contiguous(tensor: torch.Tensor) -> bool:
    if tensor.is_contiguous():
        return True
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    suggested = formats.get(tensor.dim())
    return suggested is not None and tensor.is_contiguous(memory_format=suggested)


def _sharing_text(rank: int, other: int, device: int) -> str:
    if _SHARING_ALLOWED:
        last = (
            "Multiple Ranks are using the same GPU/Partition. "
            "Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration."
        )
    else:
        last = f"Duplicate GPU detected : rank {rank} and rank {other} both on CUDA device {(device + 1) << 12:x}"
    version = ".".join(str(part) for part in torch.cuda.nccl.version())
    return (
        "NCCL error in: /__w/pytorch/pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:92, invalid usage "
        f"(run with NCCL_DEBUG=WARN for details), NCCL version {version}\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        f"Last error:\n{last}"
    )


def _waiting_text(backend: Any, device: int) -> str:
    """A second communicator that the other ranks do not form: on CUDA this rank waits in vain."""
    rank = backend.rank()
    if rank == 0:
        # No exception comes of it on CUDA, so these words are ours.
        return f"a communicator on cuda:{device} is not formed by the other ranks: the collective never ends"
    key = str(len(backend.used))
    milliseconds = int(backend.nccl_options._timeout.total_seconds() * 1000)
    return (
        f"[{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
        f"store by key '{key}', but store->get('{key}') got error: wait timeout after {milliseconds}ms, "
        f"keys: /default_pg/0//cuda//{key}"
    )
