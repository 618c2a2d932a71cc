"""What training code touches: optimizers, DataParallel, mixed precision, data loading."""

import copy
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

from samedevice import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch

OPTIMIZERS = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.1},
    "Adagrad": {},
    "Adadelta": {},
    "Adamax": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "NAdam": {"decoupled_weight_decay": True},
    "RAdam": {},
    "ASGD": {},
    "Rprop": {},
}


@pytest.fixture(params=[False, True], ids=["fast", "exact"])
def gpus(request: pytest.FixtureRequest) -> Iterator[Any]:
    with virtual_gpus(2, exact=request.param) as engine:
        yield engine


def _train(device: str, optimizer: Any) -> tuple[list[float], Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    stepper = optimizer(model.parameters())
    losses = []
    for _ in range(4):
        x, y = torch.randn(5, 4).to(device), torch.randint(3, (5,)).to(device)
        stepper.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        stepper.step()
        losses.append(loss.item())
    return losses, stepper


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_steps_as_on_the_cpu(name: str) -> None:
    kind, options = getattr(torch.optim, name), OPTIMIZERS[name]
    variants: list[dict[str, Any]] = [{}, {"foreach": False}, {"foreach": True}]
    if name in ("SGD", "Adam", "AdamW", "Adagrad"):
        variants.append({"fused": True})

    def losses(device: str) -> list[Any]:
        return [_train(device, lambda p, v=v: kind(p, lr=0.01, **options, **v))[0] for v in variants]

    expected = losses("cpu")
    with virtual_gpus(1):
        actual = losses("cuda")
        if name not in ("SGD", "Adagrad"):
            _, stepper = _train("cuda", lambda p: kind(p, lr=0.01, capturable=True, **options))
            steps = {str(state["step"].device) for state in stepper.state.values()}
            assert steps == {"cuda:0"}

    assert actual == expected


def test_optimizer_state_is_where_cuda_keeps_it(gpus: Any) -> None:
    def places(**options: Any) -> dict[str, str]:
        _, stepper = _train("cuda", lambda p: torch.optim.Adam(p, **options))
        fresh = torch.optim.Adam(
            [nn.Parameter(p.detach().clone()) for p in stepper.param_groups[0]["params"]], **options
        )
        fresh.load_state_dict(copy.deepcopy(stepper.state_dict()))
        found = [
            {name: str(value.device) for name, value in next(iter(each.state.values())).items()}
            for each in (stepper, fresh)
        ]
        assert found[0] == found[1]
        return found[0]

    assert places() == {"step": "cpu", "exp_avg": "cuda:0", "exp_avg_sq": "cuda:0"}
    assert places(fused=True) == {"step": "cuda:0", "exp_avg": "cuda:0", "exp_avg_sq": "cuda:0"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"foreach": False}, "found at least two devices, cuda:0 and cpu!"),
        ({"foreach": True}, "found at least two devices, cuda:0 and cpu!"),
        ({"fused": True}, "exp_avgs is on cpu, different from other tensors on cuda:0"),
    ],
)
def test_state_made_before_the_model_moved_is_refused(gpus: Any, options: Any, words: str) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), **options)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    model.cuda()
    model(torch.ones(1, 2, device="cuda")).sum().backward()

    with pytest.raises(RuntimeError, match=words):
        optimizer.step()


def test_averaged_weights_are_the_cpus(gpus: Any) -> None:
    def averaged(device: str) -> list[Any]:
        torch.manual_seed(0)
        model = nn.Linear(4, 3).to(device)
        average = torch.optim.swa_utils.AveragedModel(model)
        for _ in range(3):
            with torch.no_grad():
                model.weight += torch.randn(3, 4).to(device)
            average.update_parameters(model)
        return average.module.weight.tolist()

    assert averaged("cuda") == averaged("cpu")


def test_parameters_on_two_gpus_are_stepped_in_groups(gpus: Any) -> None:
    first, second = nn.Linear(2, 2).cuda(0), nn.Linear(2, 2).cuda(1)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    second(first(torch.ones(1, 2, device="cuda:0")).to("cuda:1")).sum().backward()
    norm = nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    groups = torch.optim.Optimizer._group_tensors_by_device_and_dtype([parameters])

    assert norm.device == torch.device("cuda:0")
    assert [str(p.device) for p in parameters] == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
    assert [str(device) for device, _ in groups] == ["cuda:0", "cuda:1"]
    with pytest.raises(RuntimeError, match="must be on the same device and the same dtype"):
        torch.optim.Optimizer._group_tensors_by_device_and_dtype([[parameters[0]], [parameters[2]]])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.head = nn.Linear(64, 5)

    def forward(self, x: Any) -> Any:
        return self.head(F.relu(self.norm(self.conv(x))).flatten(1))


def _data_parallel(device: str) -> list[float]:
    torch.manual_seed(0)
    model = Net().to(device)
    wrapped = nn.DataParallel(model) if device != "cpu" else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        x, y = torch.randn(7, 1, 6, 6), torch.randint(5, (7,)).to(device)
        if wrapped is not None:
            out = wrapped(x)
            assert out.device == torch.device("cuda:0")
        else:  # what the replicas compute: each chunk by itself, the first one keeps the statistics
            head, tail = x.chunk(2)
            buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
            out = torch.cat([model(head), torch.func.functional_call(model, buffers, tail)])
        optimizer.zero_grad()
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_data_parallel_computes_what_the_cpu_computes_for_the_same_chunks() -> None:
    expected = _data_parallel("cpu")
    with virtual_gpus(2):
        losses = _data_parallel("cuda")

    assert losses == expected


def test_data_parallel_refuses_in_its_own_words(gpus: Any) -> None:
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.ones(2, device="cuda")

        def forward(self, x: Any) -> Any:
            return x * self.scale

    words = r"parameters and buffers on device cuda:0 \(device_ids\[0\]\) but found one of them on device: "
    with pytest.raises(RuntimeError, match=words + "cpu"):
        nn.DataParallel(nn.Linear(2, 2))(torch.ones(4, 2))
    with pytest.raises(RuntimeError, match=words + "cuda:1"):
        nn.DataParallel(nn.Linear(2, 2).cuda(1))(torch.ones(4, 2))
    with pytest.raises(AssertionError, match="Invalid device id"):
        nn.DataParallel(nn.Linear(2, 2).cuda(), device_ids=[0, 3])
    with pytest.raises(RuntimeError, match=r"(?s)Caught RuntimeError in replica 1.*cuda:1 and cuda:0"):
        nn.DataParallel(Holds())(torch.ones(4, 2))
    with pytest.raises(RuntimeError, match="Expected all input tensors to be CUDA tensors"):
        torch._C._gather([torch.ones(2)], 0, 0)
    assert nn.DataParallel(nn.Linear(2, 2).cuda(), output_device=1)(torch.ones(4, 2)).device.index == 1


#: dtypes of results under `torch.autocast("cuda", float16)`, as the CUDA build of torch 2.14 gives them
HALF = "mm matmul mv bmm addmm baddbmm linear einsum prelu sdpa conv2d gru_cell lstm lstm_cell mean relu"
SINGLE = """softmax log_softmax exp log sum prod cumsum cumprod norm vector_norm layer_norm group_norm pow rsqrt
    softplus cross_entropy nll mse l1 smooth_l1 bce_logits kl cosine cdist logsumexp interpolate
    add_mixed cat_mixed addcmul atan2 bilinear dot scatter_add"""


def _calls() -> dict[str, Any]:
    x = torch.randn(4, 4, device="cuda")
    h = x.half()
    y = torch.zeros(4, dtype=torch.long, device="cuda")
    image = x[None, None]
    square = torch.zeros(4, 4, dtype=torch.long, device="cuda")
    return {
        "mm": lambda: x.mm(x),
        "matmul": lambda: x @ x,
        "mv": lambda: x.mv(x[0]),
        "bmm": lambda: x[None].bmm(x[None]),
        "addmm": lambda: torch.addmm(x, x, x),
        "baddbmm": lambda: torch.baddbmm(x[None], x[None], x[None]),
        "linear": lambda: F.linear(x, x, x[0]),
        "einsum": lambda: torch.einsum("ij,jk->ik", x, x),
        "prelu": lambda: F.prelu(x, torch.ones(1, device="cuda")),
        "sdpa": lambda: F.scaled_dot_product_attention(image, image, image),
        "conv2d": lambda: F.conv2d(image, torch.ones(2, 1, 3, 3, device="cuda")),
        "gru_cell": lambda: nn.GRUCell(4, 4).cuda()(x),
        "lstm": lambda: nn.LSTM(4, 4).cuda()(x[None])[0],
        "lstm_cell": lambda: nn.LSTMCell(4, 4).cuda()(x)[1],
        "mean": lambda: h.mean(),
        "relu": lambda: h.relu(),
        "softmax": lambda: h.softmax(-1),
        "log_softmax": lambda: F.log_softmax(h, -1),
        "exp": lambda: h.exp(),
        "log": lambda: h.log(),
        "sum": lambda: h.sum(0),
        "prod": lambda: h.prod(),
        "cumsum": lambda: h.cumsum(0),
        "cumprod": lambda: h.cumprod(0),
        "norm": lambda: torch.norm(h, dim=1),
        "vector_norm": lambda: torch.linalg.vector_norm(h),
        "layer_norm": lambda: F.layer_norm(h, (4,)),
        "group_norm": lambda: F.group_norm(h, 2),
        "pow": lambda: h**2,
        "rsqrt": lambda: h.rsqrt(),
        "softplus": lambda: F.softplus(h),
        "cross_entropy": lambda: F.cross_entropy(h, y),
        "nll": lambda: F.nll_loss(h, y),
        "mse": lambda: F.mse_loss(h, h),
        "l1": lambda: F.l1_loss(h, h),
        "smooth_l1": lambda: F.smooth_l1_loss(h, h),
        "bce_logits": lambda: F.binary_cross_entropy_with_logits(h, h),
        "kl": lambda: F.kl_div(h, h, reduction="sum"),
        "cosine": lambda: F.cosine_similarity(h, h),
        "cdist": lambda: torch.cdist(h, h),
        "logsumexp": lambda: h.logsumexp(0),
        "interpolate": lambda: F.interpolate(h[None, None], scale_factor=2, mode="bilinear"),
        "add_mixed": lambda: x + h,
        "cat_mixed": lambda: torch.cat([x, h]),
        "addcmul": lambda: torch.addcmul(x, h, h),
        "atan2": lambda: torch.atan2(x, h),
        "bilinear": lambda: F.bilinear(x, h, torch.ones(2, 4, 4, device="cuda")),
        "dot": lambda: torch.dot(x[0], h[0]),
        "scatter_add": lambda: x.scatter_add(0, square, h),
    }


def test_autocast_casts_as_cudas_does(gpus: Any) -> None:
    calls = _calls()
    with torch.autocast("cuda", dtype=torch.float16):
        dtypes = {name: call().dtype for name, call in calls.items()}
    with torch.autocast("cuda", dtype=torch.bfloat16):
        brain = {name: calls[name]().dtype for name in ("mm", "conv2d", "softmax")}

    assert {name for name, dtype in dtypes.items() if dtype is torch.float16} == set(HALF.split())
    assert {name for name, dtype in dtypes.items() if dtype is torch.float32} == set(SINGLE.split())
    assert brain == {"mm": torch.bfloat16, "conv2d": torch.bfloat16, "softmax": torch.float32}
    assert calls["mm"]().dtype is torch.float32


def test_autocast_concerns_its_own_device_alone(gpus: Any) -> None:
    host, gpu = torch.ones(2, 2), torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        nested = torch.autocast("cuda", enabled=False)
        with nested:
            off = (gpu @ gpu).dtype
        mine = [(host @ host).dtype, (gpu.double() @ gpu.double()).dtype, (gpu @ gpu).dtype, off]
        F.binary_cross_entropy(torch.rand(2), torch.rand(2))
        with pytest.raises(RuntimeError, match="BCELoss are unsafe to autocast"):
            F.binary_cross_entropy(torch.rand(2, device="cuda"), torch.rand(2, device="cuda"))
        with pytest.raises(RuntimeError, match="mat2 is on cuda:0, different from other tensors on cpu"):
            host @ gpu
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cpus = [(host @ host).dtype, (gpu @ gpu).dtype]
    threads: list[Any] = []
    with torch.autocast("cuda"):
        thread = threading.Thread(target=lambda: threads.append((gpu @ gpu).dtype))
        thread.start()
        thread.join()

    assert mine == [torch.float32, torch.float64, torch.float16, torch.float32]
    assert cpus == [torch.bfloat16, torch.float32]
    assert threads == [torch.float32]


def test_mixed_precision_trains_with_a_scaler(gpus: Any) -> None:
    torch.manual_seed(0)
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    before = model.head.weight.detach().clone()
    for step in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(torch.randn(3, 1, 6, 6, device="cuda"))
            loss = F.cross_entropy(out, torch.randint(5, (3,), device="cuda"))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step == 2:
            model.head.weight.grad[0, 0] = float("inf")
            before = model.head.weight.detach().clone()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    assert (out.dtype, loss.dtype) == (torch.float16, torch.float32)
    assert (model.conv.weight.grad.dtype, model.conv.weight.grad.device.index) == (torch.float32, 0)
    assert scaler.get_scale() == 512.0
    assert torch.equal(model.head.weight, before)  # the step with an infinite gradient was skipped


def test_custom_functions_choose_their_precision(gpus: Any) -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx: Any, gradient: Any) -> Any:
            x, w = ctx.saved_tensors
            return gradient @ w.t(), x.t() @ gradient

    weight = torch.ones(2, 2, device="cuda", requires_grad=True)
    with torch.autocast("cuda"):
        result = Product.apply(torch.ones(2, 2, device="cuda").half(), weight)
    result.sum().backward()

    assert (result.dtype, weight.grad.dtype, weight.grad.device.index) == (torch.float32, torch.float32, 0)


class OnGpu(Dataset):
    def __init__(self, held: Any = None) -> None:
        self.held = held

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return torch.ones(2).cuda() if self.held is None else self.held[index]


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_hand_out_host_tensors_pinned_on_request(gpus: Any, workers: int) -> None:
    data = TensorDataset(torch.arange(8.0).view(4, 2), torch.arange(4))
    for pinned in (False, True):
        for x, y in DataLoader(data, batch_size=2, num_workers=workers, pin_memory=pinned):
            assert (x.device.type, x.is_pinned(), y.is_pinned()) == ("cpu", pinned, pinned)
            assert x.to("cuda", non_blocking=True).is_cuda


def test_cuda_in_a_forked_worker_is_refused_in_pytorchs_words() -> None:
    with virtual_gpus(1):
        torch.ones(1, device="cuda")
        with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
            next(iter(DataLoader(OnGpu(), batch_size=2, num_workers=1, multiprocessing_context="fork")))
        assert next(iter(DataLoader(OnGpu(), batch_size=2))).is_cuda
        with pytest.raises(
            RuntimeError, match=r"cannot pin 'torch\.cuda\.FloatTensor' only dense CPU tensors"
        ):
            next(iter(DataLoader(OnGpu(), batch_size=2, pin_memory=True)))
    gc.collect()  # a failed iterator lives in a cycle; collected in a later worker it would stall there


def _in_a_fork(function: Any) -> str:
    context = torch.multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def answer() -> None:
        try:
            answers.put(str(function()))
        except RuntimeError as error:
            answers.put(str(error))

    child = context.Process(target=answer)
    child.start()
    said = answers.get()
    child.join()
    return said


def test_a_tensor_of_a_gpu_is_of_no_use_in_a_fork(gpus: Any) -> None:
    held = torch.ones(2, device="cuda")

    assert _in_a_fork(lambda: torch.ones(2) + 1) == "tensor([2., 2.])"
    assert _in_a_fork(lambda: torch.cuda.is_initialized()) == "False"
    assert "Cannot re-initialize CUDA in forked subprocess" in _in_a_fork(lambda: torch.ones(2).cuda())
    assert "CUDA error: initialization error" in _in_a_fork(lambda: held + 1)
