"""FSDP, DTensor, tensor parallelism, checkpoints and SyncBatchNorm on virtual GPUs, in one process."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not (dist.is_available() and dist.is_gloo_available()):
    pytest.skip("needs gloo", allow_module_level=True)

from torch import nn  # noqa: E402
from torch.distributed.checkpoint.state_dict import (  # noqa: E402
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.fsdp import (  # noqa: E402
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor import (  # noqa: E402
    DTensor,
    Replicate,
    Shard,
    distribute_tensor,
    zeros,
)

from samedevice import virtual_gpus  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

GPU = torch.device("cuda", 0)


@pytest.fixture(params=[False, True], ids=["fast", "exact"])
def mesh(request: pytest.FixtureRequest) -> Iterator[Any]:
    with virtual_gpus(2, exact=request.param):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        yield dist.init_device_mesh("cuda", (1,))
        dist.destroy_process_group()


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(model: Any) -> list[float]:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(6, 4, generator=generator).cuda(), torch.arange(6).cuda() % 2
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(x).float(), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def sharded(model: Any, mesh: Any, **options: Any) -> Any:
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh, **options)
    return model


def test_fsdp2_trains_as_the_plain_module_does(mesh):
    expected = train(net().cuda())

    on_gpu = sharded(net().cuda(), mesh)
    from_cpu = sharded(net(), mesh)
    offloaded = sharded(net(), mesh, offload_policy=CPUOffloadPolicy())
    mixed = sharded(net().cuda(), mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))

    assert train(on_gpu) == expected
    assert train(from_cpu) == expected
    assert train(offloaded) == expected
    assert train(mixed) == pytest.approx(expected, abs=0.02)
    assert {p.device for p in from_cpu.parameters()} == {GPU}
    assert {p.device.type for p in offloaded.parameters()} == {"cpu"}


def test_a_sharded_model_made_on_meta_is_filled_from_a_checkpoint(mesh, tmp_path):
    source = sharded(net().cuda(), mesh)
    with torch.device("meta"):
        target = net()
    sharded(target, mesh).to_empty(device="cuda")

    full = get_model_state_dict(source, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    devices = {value.device.type for value in full.values()}
    set_model_state_dict(target, full, options=StateDictOptions(full_state_dict=True))
    torch.distributed.checkpoint.save({"model": target.state_dict()}, checkpoint_id=tmp_path)
    torch.distributed.checkpoint.load({"model": target.state_dict()}, checkpoint_id=tmp_path)

    assert devices == {"cpu"}
    assert {v.device for v in target.state_dict().values()} == {GPU}
    assert train(target) == train(source)


def test_fsdp1_trains_as_the_plain_module_does(mesh):
    expected = train(net().cuda())

    assert train(FullyShardedDataParallel(net().cuda(), device_id=0)) == expected
    assert train(FullyShardedDataParallel(net(), device_id=0, use_orig_params=True)) == expected


def test_fsdp1_refuses_modules_spread_over_devices(mesh):
    half, two = net(), net()
    half[0].cuda()
    two[0].cuda(0)
    two[2].cuda(1)

    with pytest.raises(RuntimeError, match="both CPU and GPU params, please pass in device_id"):
        FullyShardedDataParallel(half)
    with pytest.raises(RuntimeError, match="FSDP only supports single device modules but got params on"):
        FullyShardedDataParallel(two)


def test_a_dtensor_is_where_its_local_tensor_is(mesh):
    x = torch.randn(4, 4, device="cuda")

    d = distribute_tensor(x, mesh, [Shard(0)])
    product = d @ d
    whole = product.redistribute(mesh, [Replicate()])

    assert d.is_cuda
    assert (d.device, product.to_local().device, whole.device) == (GPU, GPU, GPU)
    assert torch.equal(whole.full_tensor(), x @ x)
    assert zeros(2, device_mesh=mesh, placements=[Shard(0)]).to_local().device == GPU
    assert d.cpu().to_local().device.type == "cpu"
    with pytest.raises(RuntimeError, match=r"got mixed torch\.Tensor and DTensor"):
        d + x


def test_gradients_and_state_of_a_dtensor_are_beside_it(mesh):
    weight = nn.Parameter(distribute_tensor(torch.ones(4, 4, device="cuda"), mesh, [Shard(0)]))
    optimizer = torch.optim.AdamW([weight])

    (weight * 2).sum().backward()
    optimizer.step()

    assert weight.grad.device == weight.grad.to_local().device == GPU
    assert optimizer.state[weight]["exp_avg"].device == GPU


def test_tensor_parallel_layers_compute_what_plain_ones_do(mesh):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plain = net().cuda()
    split = parallelize_module(copy.deepcopy(plain), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(3, 4, device="cuda")

    y = split(x)
    y.sum().backward()

    assert torch.equal(y, plain(x))
    assert isinstance(split[0].weight.grad, DTensor)
    assert split[0].weight.grad.device == GPU


def test_sync_batch_norm_refuses_the_cpu(mesh):
    norm = nn.SyncBatchNorm(3).cuda()

    assert norm(torch.randn(4, 3, device="cuda")).device == GPU
    with pytest.raises(ValueError, match="SyncBatchNorm expected input tensor to be on"):
        norm.cpu()(torch.randn(4, 3))


MIXED = "must be on the same type of devices, but input module parameters locate in {"
IDS = "arguments only work with single-device/multiple-device GPU modules or CPU modules, but got device_ids"


@pytest.mark.parametrize(
    ("place", "options", "words"),
    [
        (lambda m: m[0].cuda(), {}, MIXED),
        (lambda m: m, {"device_ids": [0]}, IDS),
        (lambda m: (m[0].cuda(0), m[2].cuda(1)), {"device_ids": [0]}, IDS),
    ],
    ids=["half on the GPU", "on the CPU", "on two GPUs"],
)
def test_ddp_refuses_modules_in_the_wrong_place(mesh, place, options, words):
    model = net()
    place(model)

    with pytest.raises(ValueError) as raised:
        nn.parallel.DistributedDataParallel(model, **options)

    assert words in str(raised.value)
