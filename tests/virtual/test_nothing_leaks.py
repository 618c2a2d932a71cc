"""Leaving `virtual_gpus` restores torch attribute for attribute; what a step made is freed without a collector."""

import gc
import sys
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from samedevice import virtual_gpus  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op`")]


def _snapshot() -> dict[tuple[str, str], Any]:
    """Every attribute of torch's modules and of the classes that programs meet, and some containers."""
    found: dict[tuple[str, str], Any] = {}
    for name, module in list(sys.modules.items()):
        if name == "torch" or name.startswith("torch.") or name in ("threading", "copy", "pickle", "copyreg"):
            for key, value in list(vars(module).items()):
                found[name, key] = value
                if isinstance(value, (dict, list, set)):
                    found[name, f"{key} holds"] = [id(item) for item in list(value)]
    classes = (
        torch.Tensor,
        torch._C.TensorBase,
        torch.UntypedStorage,
        torch.TypedStorage,
        torch.storage._StorageBase,
        torch.nn.Module,
        torch.nn.Parameter,
        torch.optim.Optimizer,
        torch.autograd.Function,
        torch.utils.data.DataLoader,
        torch.utils.data.dataloader._BaseDataLoaderIter,
        torch.autocast,
        torch.amp.GradScaler,
        threading.Thread,
    )
    for cls in classes:
        for key, value in list(vars(cls).items()):
            found[cls.__qualname__, key] = value
    found["registry", "packages"] = list(torch.serialization._package_registry)
    found["state", "default dtype"] = torch.get_default_dtype()
    found["state", "default device"] = torch.get_default_device()
    found["state", "autocast"] = (
        torch.is_autocast_enabled("cuda"),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cuda"),
        torch.get_autocast_dtype("cpu"),
    )
    found["state", "modes"] = (
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
    )
    return found


def _use_everything() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(4, 4, device="cuda")).float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.nn.DataParallel(model)(torch.randn(4, 4))
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.synchronize()
    torch.cuda.manual_seed_all(0)
    torch.cuda.reset_peak_memory_stats()
    torch.compile(model)(torch.randn(2, 4, device="cuda"))
    thread = threading.Thread(target=lambda: torch.ones(1, device="cuda:1"))
    thread.start()
    thread.join()


def _let_torch_fill_its_caches() -> None:
    """What torch does once, on any machine: importing dynamo wraps functions, a first step looks for CUPTI."""
    import torch._dynamo

    weight = torch.nn.Parameter(torch.ones(1))
    weight.sum().backward()
    torch.optim.Adam([weight]).step()


def _changed(before: dict[tuple[str, str], Any], after: dict[tuple[str, str], Any], keys: Any) -> list[Any]:
    return sorted(
        key
        for key in keys
        if before.get(key, "absent") is not after.get(key, "absent")
        # bound methods and small containers are made anew at each look
        and before.get(key, "absent") != after.get(key, "absent")
    )


def test_leaving_restores_every_attribute() -> None:
    _let_torch_fill_its_caches()
    pristine = _snapshot()
    with virtual_gpus(2):
        inside = _snapshot()
        _use_everything()  # imports what is imported late
    first = _snapshot()
    with virtual_gpus(2):
        _use_everything()
    second = _snapshot()

    assert len(_changed(pristine, inside, pristine)) > 80
    assert _changed(first, second, first.keys() | second.keys()) == []
    # submodules and caches that the program's own imports added are new, nothing else is
    assert [key for key in _changed(pristine, first, pristine) if not key[1].endswith(" holds")] == []


def test_a_program_that_fails_leaves_nothing_behind_either() -> None:
    before = _snapshot()

    with pytest.raises(ZeroDivisionError), virtual_gpus():
        torch.ones(2, device="cuda").sum() / (1 // 0)

    after = _snapshot()
    assert _changed(before, after, before.keys() | after.keys()) == []
    assert not torch.cuda.is_available() or torch.cuda.get_device_name() != "Virtual GPU"


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2


def test_a_step_with_functions_of_ones_own_leaves_no_cycles() -> None:
    with virtual_gpus(2):
        model = torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda())
        for _ in range(2):  # the first step fills torch's own caches
            gc.collect()
            x = torch.ones(2, 2, device="cuda", requires_grad=True)
            Twice.apply(model(x)).sum().backward()
            del x
            found = gc.collect()

    assert found == 0
