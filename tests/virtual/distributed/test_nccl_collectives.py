"""Collectives of an nccl group on virtual GPUs: what they compute, where, and what NCCL refuses."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

import torch.distributed._functional_collectives as functional  # noqa: E402

from samedevice import virtual_gpus  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="needs gloo"),
]


@pytest.fixture(params=[False, True], ids=["fast", "exact"])
def group(request: pytest.FixtureRequest) -> Iterator[Any]:
    with virtual_gpus(2, exact=request.param) as engine:
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        yield engine
        dist.destroy_process_group()


def ones(*shape: int, device: Any = "cuda", dtype: Any = None) -> Any:
    return torch.ones(*(shape or (4,)), device=device, dtype=dtype)


def test_the_group_says_that_it_is_nccl(group):
    assert dist.is_nccl_available()
    assert dist.get_backend() == "nccl"
    assert dist.group.WORLD.name() == "nccl"
    assert dist.group.WORLD._device_types == [torch.device("cuda")]
    assert isinstance(dist.group.WORLD._get_backend(torch.device("cuda")), dist.ProcessGroupNCCL)
    assert dist.ProcessGroupNCCL.Options(is_high_priority_stream=True).is_high_priority_stream
    assert torch.cuda.nccl.version() >= (2, 20)


def test_every_collective_runs_and_results_stay_on_the_gpu(group):
    world = dist.group.WORLD
    x = ones()
    dist.all_reduce(x)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    dist.broadcast(x, 0)
    dist.reduce(x, 0, op=dist.ReduceOp.AVG)
    dist.all_gather([ones()], x)
    dist.all_gather_into_tensor(ones(), x)
    dist.reduce_scatter(x, [ones()])
    dist.reduce_scatter_tensor(x, ones(), op=dist.ReduceOp.AVG)
    dist.gather(x, [ones()])
    dist.scatter(x, [ones()])
    dist.all_to_all([x], [ones()])
    dist.all_to_all_single(x, ones())
    dist.all_to_all_single(x, ones(), [4], [4])
    dist.barrier()
    dist.barrier(device_ids=[0])
    with dist._coalescing_manager(device=torch.device("cuda", 0)):
        dist.all_reduce(x)
    with dist._coalescing_manager(async_ops=True) as block:
        dist.all_gather_into_tensor(ones(), x)
        dist.all_gather_into_tensor(ones(), x)
    block.wait()

    assert x.device == torch.device("cuda", 0)
    assert x.tolist() == [1.0] * 4
    for y in (
        functional.all_reduce(x, "avg", world),
        functional.all_gather_tensor(x, 0, world),
        functional.reduce_scatter_tensor(x, "sum", 0, world),
        functional.all_to_all_single(x, None, None, world),
    ):
        assert y.device == torch.device("cuda", 0)
        assert (y + x).tolist() == [2.0] * 4


@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_an_asynchronous_collective_gives_a_work_and_a_future(group, op):
    x = ones()

    work = dist.all_reduce(x, op=getattr(dist.ReduceOp, op), async_op=True)

    assert work.wait()
    assert work.is_completed()
    assert work.get_future().then(lambda f: f.value()[0]).wait().device == torch.device("cuda", 0)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int8", "uint8", "bool", "float8_e4m3fn"])
def test_types_that_nccl_carries_are_carried(group, name):
    dtype = getattr(torch, name)
    x, y = ones().to(dtype), ones().to(dtype)

    dist.broadcast(x, 0)
    dist.all_gather([y], x)

    assert y.dtype == dtype
    if name != "float8_e4m3fn":
        dist.all_reduce(x)
    with pytest.raises(TypeError, match="not supported for NCCL process group: Short"):
        dist.all_reduce(ones().to(torch.int16))


def test_objects_travel_through_the_current_gpu(group):
    found: list[Any] = [None]

    dist.all_gather_object(found, {"x": ones(device="cuda:1")})
    dist.broadcast_object_list(found, 0)

    assert found[0]["x"].device == torch.device("cuda", 1)


def test_a_differentiable_collective_takes_its_gradient_along(group):
    from torch.distributed.nn.functional import all_reduce

    x = ones().requires_grad_()

    all_reduce(x * 2).sum().backward()

    assert x.grad.device == torch.device("cuda", 0)
    assert x.grad.tolist() == [2.0] * 4


CPU = "No backend type associated with device type cpu"
DENSE = "Tensors must be CUDA and dense"
GUARD = "CUDAGuardImpl initialized with non-CUDA DeviceType: cpu"
OPTIONS = (
    "layout=Strided, requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt)"
)
#: call with a tensor on the CPU, and what PyTorch 2.14.1's own library says of it
REFUSED = {
    "all_reduce": (lambda c: dist.all_reduce(c), RuntimeError, CPU),
    "broadcast": (lambda c: dist.broadcast(c, 0), RuntimeError, CPU),
    "all_gather's input": (lambda c: dist.all_gather([ones()], c), RuntimeError, CPU),
    "reduce_scatter's output": (lambda c: dist.reduce_scatter(c, [ones()]), RuntimeError, CPU),
    "reduce_scatter's list": (lambda c: dist.reduce_scatter(ones(), [c]), RuntimeError, GUARD),
    "gather's input": (lambda c: dist.gather(c, [ones()]), RuntimeError, CPU),
    "scatter's output": (lambda c: dist.scatter(c, [ones()]), RuntimeError, CPU),
    "all_to_all's list": (lambda c: dist.all_to_all([ones()], [c]), ValueError, DENSE),
    "all_reduce_coalesced": (lambda c: dist.all_reduce_coalesced([ones(), c]), ValueError, DENSE),
    "DDP": (lambda c: torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2)), RuntimeError, CPU),
    "all_gather_into_tensor's output": (lambda c: dist.all_gather_into_tensor(c, ones()), ValueError, DENSE),
    "reduce_scatter_tensor's input": (lambda c: dist.reduce_scatter_tensor(ones(), c), RuntimeError, GUARD),
    "all_to_all_single's input": (lambda c: dist.all_to_all_single(ones(), c), ValueError, DENSE),
    "gather's list": (
        lambda c: dist.gather(ones(), [c]),
        ValueError,
        "ProcessGroupNCCL::gather: invalid tensor type at index 0 (expected TensorOptions(dtype=float, "
        f"device=cuda:0, {OPTIONS}), got TensorOptions(dtype=float, device=cpu, {OPTIONS}))",
    ),
    "a functional collective": (
        lambda c: functional.all_reduce(c, "sum", dist.group.WORLD),
        RuntimeError,
        CPU,
    ),
    "two GPUs in one list": (
        lambda c: dist.all_to_all([ones()], [ones(device="cuda:1")]),
        RuntimeError,
        "Tensors must be on the same device",
    ),
    "two GPUs coalesced": (
        lambda c: dist.all_reduce_coalesced([ones(), ones(device="cuda:1")]),
        ValueError,
        "Expected list of tensors on the same device",
    ),
    "memory with gaps": (
        lambda c: dist.all_reduce(ones(3, 3).t()[1:]),
        ValueError,
        "Tensors must be contiguous",
    ),
}


@pytest.mark.parametrize("call", REFUSED)
def test_nccl_refuses_in_its_own_words(group, call):
    run, exception, words = REFUSED[call]

    with pytest.raises(exception) as raised:
        run(torch.ones(4))

    assert str(raised.value) == words
    assert type(raised.value) is exception


def test_gloo_takes_tensors_of_the_cpu_beside_nccl(group):
    gloo = dist.new_group([0], backend="gloo")
    nccl = dist.new_group([0])

    dist.all_reduce(torch.ones(2), group=gloo)
    dist.all_reduce(ones(2), group=nccl)
    with pytest.raises(RuntimeError, match=CPU):
        dist.all_reduce(torch.ones(2), group=nccl)


@pytest.mark.parametrize("exact", [False, True])
def test_a_group_with_a_backend_for_each_device_takes_both(exact):
    with virtual_gpus(2, exact=exact):
        dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1)
        x, y = torch.ones(2), ones(2)
        dist.all_reduce(x)
        dist.all_reduce(y)
        dist.all_gather_object([None], 1)
        dist.barrier()
        dist.destroy_process_group()

        assert (x.device.type, y.device.type) == ("cpu", "cuda")


def test_without_a_backend_named_the_group_is_nccl():
    with virtual_gpus(1):
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        dist.all_reduce(ones())
        with pytest.raises(RuntimeError, match=CPU):
            dist.all_reduce(torch.ones(2))
        dist.destroy_process_group()


def test_a_group_bound_to_a_gpu_refuses_another():
    with virtual_gpus(2):
        options = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        dist.init_process_group("nccl", device_id=torch.device("cuda", 1), **options)
        part = dist.new_group([0])
        dist.all_reduce(ones(device="cuda:1"), group=part)
        with pytest.raises(dist.DistBackendError) as raised:
            dist.all_reduce(ones(device="cuda:0"))
        dist.destroy_process_group()

    words = "Attempt to perform collective on tensor not on device passed to init_process_group"
    assert str(raised.value) == words


def test_reporting_carries_the_collective_out_all_the_same():
    with virtual_gpus(1, "report") as engine:
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        x = torch.full((2,), 3.0)
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        found: Any = torch.zeros(2)
        dist.all_gather_into_tensor(found, ones(2))
        dist.destroy_process_group()

    assert x.tolist() == [3.0, 3.0]
    assert found.tolist() == [1.0, 1.0]
    assert [d.rule for d in engine.diagnostics()] == ["collective-on-wrong-device"] * 2


def test_leaving_gives_torch_distributed_back():
    def seen() -> dict[str, Any]:
        c10d = dist.distributed_c10d
        found = {
            f"{owner.__name__}.{key}": list(value) if isinstance(value, (dict, list)) else value
            for owner in (dist, c10d, dist.Backend, dist.ProcessGroup, dist.Reducer, dist.constants)
            for key, value in list(vars(owner).items())
        }
        found["ddp"] = dict(vars(torch.nn.parallel.DistributedDataParallel))
        return found

    def kernels() -> list[str]:
        return [torch._C._dispatch_dump(f"{name}") for name in ("c10d::allreduce_", "aten::batch_norm_stats")]

    options = {"rank": 0, "world_size": 1}
    before, registered = seen(), kernels()
    with virtual_gpus(1):
        dist.init_process_group("nccl", store=dist.HashStore(), **options)
        dist.all_reduce(ones())
        assert kernels() != registered
        dist.destroy_process_group()
    after = seen()

    world = {"torch.distributed.distributed_c10d._default_pg_init_method"}
    assert {
        k for k in before if k not in world and before[k] is not after[k] and before[k] != after[k]
    } == set()
    assert before.keys() == after.keys()
    assert [dump.count("python") for dump in kernels()] == [dump.count("python") for dump in registered]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist.init_process_group("gloo", store=dist.HashStore(), **options)
        x = torch.ones(2)
        dist.all_reduce(x)
        dist.destroy_process_group()

    assert x.tolist() == [1.0, 1.0]
