"""NCCL's process group, with gloo under it."""

import contextlib
import os
import socket
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from samedevice.virtual.distributed.checks import Claim
from samedevice.virtual.distributed.collectives import Collectives
from samedevice.virtual.distributed.works import together
from samedevice.virtual.patches import Patches


class Options:
    """Attribute for attribute `ProcessGroupNCCL.Options`."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self.backend = "nccl"
        self._timeout = timedelta(minutes=10)
        self.config = SimpleNamespace(
            blocking=1, cga_cluster_size=4, min_ctas=1, max_ctas=32, net_name=None, split_share=0
        )
        self.split_from: Any = None
        self.split_color = -1
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""
        self.group_desc = ""
        self.enable_reconfigure = False


class ProcessGroupNCCL(dist.ProcessGroupGloo):
    """A gloo backend that calls itself NCCL and knows the GPUs of its ranks.

    Attributes:
        peers: rank -> (host, GPU) as far as they have been told, empty before the first collective.
        used: the GPUs of this rank that took part in a collective, in order.
        coalesced: works of an open coalescing block, None outside of one.
        claim: the communicator that the collective under way forms, when it may be this rank's alone.
    """

    Options = Options
    NCCLConfig = SimpleNamespace
    collectives: Collectives

    def __init__(self, store: Any, rank: int, size: int, options: Any = None) -> None:
        options = Options() if options is None or isinstance(options, timedelta) else options
        super().__init__(store, rank, size, options._timeout)
        self.store = store
        self.nccl_options = options
        self.peers: dict[int, tuple[str, str]] = {}
        self.used: list[int] = []
        self.coalesced: list[Any] | None = None
        self.claim: Claim | None = None
        self.collectives.adopt(self)

    # -- what programs ask of the backend ---------------------------------------------------------

    @property
    def options(self) -> Any:
        """The options that it was made with."""
        return self.nccl_options

    @property
    def supports_coalescing(self) -> bool:
        """NCCL runs a block of operations as one."""
        return True

    @property
    def supports_splitting(self) -> bool:
        """NCCL forms a smaller group's communicator out of a larger one's."""
        return True

    @property
    def uid(self) -> int:
        """A number for the log."""
        return id(self)

    def name(self) -> str:
        """ "nccl"."""
        return "nccl"

    def eager_connect_single_device(self, device: Any = None) -> None:
        """`init_process_group(device_id=…)` forms the communicator at once."""
        index = None if device is None else torch.device(device).index
        if index is not None:
            self.collectives.judge.join(self, index, "init_process_group")

    def perform_nocolor_split(self, device: Any = None) -> None:
        """A rank that is not in the new group takes part in forming it, on CUDA."""

    def comm_split_count(self) -> int:
        """Communicators that were split off."""
        return 0

    def abort(self) -> None:
        """Nothing is under way that could not be dropped."""

    def shutdown(self) -> None:
        """Let the group go."""
        self.collectives.forget(self)

    _shutdown = shutdown

    def _is_initialized(self) -> bool:
        return bool(self.used)

    def _group_start(self) -> None:
        self.coalesced = []

    def _group_end(self) -> None:
        self.coalesced = None

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.nccl_options._timeout = timeout

    def _add_ephemeral_timeout(self, timeout: timedelta) -> None:
        pass

    def _set_enable_nan_check(self, enable: bool) -> None:
        pass

    def _verify_work_timeout(self, work: Any, timeout: timedelta) -> bool:
        return bool(self.nccl_options._timeout == timeout)


def host() -> str:
    """The machine that this process stands for: agents of several nodes may share a real one."""
    return f"{socket.gethostname()}/{os.environ.get('GROUP_RANK', '0')}"


def physical(index: int) -> str:
    """The number of a GPU that all processes of a machine agree on."""
    visible = [v.strip() for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v.strip()]
    return visible[index] if index < len(visible) else str(index)


def install(patches: Patches, activation: Any) -> Collectives:
    """Put the names where programs look for them."""
    collectives = Collectives(activation, patches)
    engine = activation.engine
    backend = type("ProcessGroupNCCL", (ProcessGroupNCCL,), {"collectives": collectives})
    backend.__module__, backend.__qualname__ = c10d.__name__, "ProcessGroupNCCL"
    for module in (c10d, dist, torch._C._distributed_c10d):
        patches.set(module, "ProcessGroupNCCL", backend)
    patches.set(c10d, "_NCCL_AVAILABLE", True)
    if not isinstance(c10d.default_pg_nccl_timeout, timedelta):
        for module in (c10d, dist.constants):
            patches.set(module, "default_pg_nccl_timeout", timedelta(minutes=10))
    if hasattr(c10d, "_create_nccl_process_group") and "NCCL" not in dist.Backend._plugins:
        # A build without NCCL does not register it.
        patches.set(dist.Backend, "_plugins", dict(dist.Backend._plugins))
        for name, value in list(vars(dist.Backend).items()):
            if isinstance(value, dict) and name != "_plugins":
                patches.set(dist.Backend, name, dict(value))
            elif isinstance(value, list):
                patches.set(dist.Backend, name, list(value))
        c10d._register_builtin_nccl_backend()

    wrap = c10d._create_process_group_wrapper

    def create_wrapper(wrapped_pg: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapped_pg if isinstance(wrapped_pg, backend) else wrap(wrapped_pg, *args, **kwargs)

    patches.set(c10d, "_create_process_group_wrapper", create_wrapper)
    _coalesce(patches, backend, engine)
    return collectives


def _coalesce(patches: Patches, kind: type, engine: Any) -> None:
    """Blocks of operations that NCCL launches together: here their works are waited for together."""
    group = dist.ProcessGroup
    start, end = group._start_coalescing, group._end_coalescing

    def backend_of(self: Any, device: Any) -> Any:
        with contextlib.suppress(RuntimeError):
            found = self._get_backend(torch.device(device))
            return found if engine.active and isinstance(found, kind) else None
        return None

    def start_coalescing(self: Any, device: Any) -> None:
        backend = backend_of(self, device)
        if backend is None:
            return start(self, device)
        backend.coalesced = []
        return None

    def end_coalescing(self: Any, device: Any) -> Any:
        backend = backend_of(self, device)
        if backend is None:
            return end(self, device)
        works, backend.coalesced = backend.coalesced or [], None
        return together(works)

    barrier = group.barrier

    def wait_for_all(self: Any, *args: Any, **kwargs: Any) -> Any:
        options = kwargs.get("opts", args[0] if args else None)
        device = getattr(options, "device", None) or torch.device("cuda")
        backend = backend_of(self, device) if device.type == "cuda" else None
        if backend is None:
            return barrier(self, *args, **kwargs)
        return backend.collectives.barrier(self, backend, options)

    patches.set(group, "barrier", wait_for_all)
    patches.set(group, "_start_coalescing", start_coalescing)
    patches.set(group, "_end_coalescing", end_coalescing)
