"""What wraps modules: DDP's checks of its module, the gradients that it hands to hooks."""

import functools
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist

from samedevice.virtual.distributed.checks import Operands
from samedevice.virtual.distributed.collectives import Collectives
from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, META, UNSETTLED, device_index, device_name


def install(patches: Patches, engine: Any, collectives: Collectives) -> None:
    """Watch what C++ does with a module's tensors."""
    _watch_flattening(patches, engine, collectives)
    _watch_ddp(patches, engine, collectives)
    _place_buckets(patches, engine)


def _watch_flattening(patches: Patches, engine: Any, collectives: Collectives) -> None:
    """C++ flattens these tensors before a collective sees them, so they are judged here."""

    def watched(name: str, argument: str) -> None:
        original = getattr(dist, name)

        def call(group: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if engine.active and _is_nccl(group):
                with torch._C.DisableTorchFunction():
                    _judge(engine, collectives, group, list(tensors), argument)
            return original(group, tensors, *args, **kwargs)

        patches.set(dist, name, functools.wraps(original)(call))

    watched("_verify_params_across_processes", "parameters")
    watched("_broadcast_coalesced", "tensors")


def _is_nccl(group: Any) -> bool:
    return any(
        device.type == "cuda" and isinstance(group._get_backend(device), dist.ProcessGroupNCCL)
        for device in group._device_types
    )


def _judge(engine: Any, collectives: Collectives, group: Any, tensors: list[torch.Tensor], name: str) -> None:
    if not tensors:
        return
    strays = [t for t in tensors if device_index(t) == CPU]
    before = engine.stepped_over
    # They are flattened device by device; the first on the CPU is what is met.
    collectives.judge.backend(group, Operands(((name, (strays or tensors)[0]),)), given=True)
    if engine.stepped_over > before:
        wanted = collectives.judge.gpu_of(group._get_backend(torch.device("cuda")), group)
        for tensor in strays:
            engine.settle(tensor, wanted)


def _watch_ddp(patches: Patches, engine: Any, collectives: Collectives) -> None:
    """DDP's own checks of where its module is are refusals like any other."""
    ddp = torch.nn.parallel.DistributedDataParallel
    original = ddp.__init__

    @functools.wraps(original)
    def initialise(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        if engine.active:
            device_ids = args[0] if args else kwargs.get("device_ids")
            output = args[1] if len(args) > 1 else kwargs.get("output_device")
            group = kwargs.get("process_group")
            if group is None and dist.is_initialized() and kwargs.get("device_mesh") is None:
                group = dist.group.WORLD
            _check_module(engine, module, device_ids, output)
            _check_host_module(engine, collectives, module, group)
        original(self, module, *args, **kwargs)

    patches.set(ddp, "__init__", initialise)
    # Buckets are made in C++, which names the gradients' device: they join the gradients they meet.
    patches.set(ddp, "_ddp_init_helper", _unsettled(engine, ddp._ddp_init_helper))
    patches.set(dist.Reducer, "_rebuild_buckets", _unsettled(engine, dist.Reducer._rebuild_buckets))


def _unsettled(engine: Any, function: Any) -> Any:
    """What C++ allocates inside is nowhere yet."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        state = engine.state
        before = state.target
        state.target = UNSETTLED
        try:
            return function(*args, **kwargs)
        finally:
            state.target = before

    return call


def _check_module(engine: Any, module: Any, device_ids: Any, output_device: Any) -> None:
    if not isinstance(module, torch.nn.Module):
        return
    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
    named = [(n, p) for n, p in module.named_parameters() if n not in ignored]
    with torch._C.DisableTorchFunction():
        devices = {device_index(p) for _, p in named}
        if not devices or META in devices or (devices == {CPU} and not (device_ids or output_device)):
            return
        gpus = sorted(d for d in devices if d >= 0)
        if len(device_ids or ()) > 1:
            return
        if CPU in devices and gpus:
            kinds = {device_name(d).partition(":")[0] for d in devices}
            text = (
                "DistributedDataParallel's input module must be on "
                f"the same type of devices, but input module parameters locate in {kinds}."
            )
        elif (CPU in devices or len(gpus) > 1) and (device_ids or output_device):
            places = {torch.device(device_name(d)) for d in devices}
            text = (
                "DistributedDataParallel device_ids and output_device arguments "
                "only work with single-device/multiple-device GPU modules or CPU modules, "
                f"but got device_ids {device_ids}, output_device {output_device}, "
                f"and module parameters {places}."
            )
        else:
            return
        wanted = _wanted(engine, device_ids, gpus)
        strays = [(n, p, device_index(p)) for n, p in named if device_index(p) != wanted]
        engine.refuse(Refusal(ValueError, text, "collective", tuple(strays[:8]), wanted, 0))
        for tensor in _state(module):
            if device_index(tensor) != wanted:
                engine.settle(tensor, wanted)


def _check_host_module(engine: Any, collectives: Collectives, module: Any, group: Any) -> None:
    """A module on the CPU whose group knows GPUs only: the first collective on its parameters is refused."""
    if not isinstance(module, torch.nn.Module) or group is None or not _is_nccl(group):
        return
    with torch._C.DisableTorchFunction():
        named = list(module.named_parameters())
        if not named or any(device_index(p) != CPU for _, p in named):
            return
        operands = Operands(tuple(named[:8]))
        before = engine.stepped_over
        collectives.judge.backend(group, operands, given=True)
        if engine.stepped_over > before:
            wanted = collectives.judge.gpu_of(group._get_backend(torch.device("cuda")), group)
            for tensor in _state(module):
                engine.settle(tensor, wanted)


def _wanted(engine: Any, device_ids: Any, gpus: list[int]) -> int:
    if device_ids:
        index = torch.cuda._utils._get_device_index(device_ids[0], True)
        return int(index) if 0 <= index < engine.machine.count else 0
    return gpus[0] if gpus else int(engine.machine.current)


def _state(module: Any) -> Iterable[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _place_buckets(patches: Patches, engine: Any) -> None:
    """A communication hook is handed buckets that C++ made: they are where their parameters are."""
    register = dist._register_comm_hook

    @functools.wraps(register)
    def register_hook(reducer: Any, state: Any, hook: Any) -> Any:
        @functools.wraps(hook)
        def placed(state: Any, bucket: Any) -> Any:
            if engine.active:
                with torch._C.DisableTorchFunction():
                    parameters = bucket.parameters()
                    buffer = bucket.buffer()
                    if parameters and device_index(buffer) < 0:
                        engine.settle(buffer, device_index(parameters[0]))
            return hook(state, bucket)

        engine.exact_backward = True
        return register(reducer, state, placed)

    patches.set(dist, "_register_comm_hook", register_hook)
