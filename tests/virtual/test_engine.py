"""What a program sees of its tensors on virtual GPUs, in the fast and in the exact tier."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from samedevice import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch

TENSOR_ITERATOR = (
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
)


@pytest.fixture(params=[False, True], ids=["fast", "exact"], autouse=True)
def gpus(request: pytest.FixtureRequest) -> Iterator[Any]:
    with virtual_gpus(2, exact=request.param) as engine:
        yield engine


# -- moves and factories ---------------------------------------------------------------------------


def test_a_moved_tensor_says_where_it_is_and_the_source_stays() -> None:
    x = torch.ones(2, 3)
    y = x.to("cuda")

    assert (str(y.device), y.is_cuda, y.get_device(), y.type()) == (
        "cuda:0",
        True,
        0,
        "torch.cuda.FloatTensor",
    )
    assert (str(x.device), x.is_cuda, x.get_device()) == ("cpu", False, -1)


@pytest.mark.parametrize("spec", ["cuda", "cuda:1", 1, torch.device("cuda", 1), torch.device("cuda")])
def test_every_spelling_of_a_device_moves(spec: Any) -> None:
    index = 1 if spec in (1, "cuda:1", torch.device("cuda", 1)) else 0

    assert torch.ones(1).to(spec).device == torch.device("cuda", index)
    assert torch.ones(1).to(device=spec, dtype=torch.float64, non_blocking=True).dtype is torch.float64
    assert torch.zeros(1, device=spec).device == torch.device("cuda", index)
    assert torch.ones(1).cuda(spec).device == torch.device("cuda", index)


def test_to_returns_the_tensor_itself_where_nothing_changes() -> None:
    x = torch.ones(2, device="cuda")

    assert x.to("cuda:0") is x
    assert x.to(x) is x
    assert x.cuda() is x
    assert x.to("cuda", copy=True) is not x
    assert x.half().to(x).dtype is torch.float32


def test_what_follows_a_tensor_is_where_the_tensor_is() -> None:
    x = torch.ones(2, 3, device="cuda:1")

    for follower in (
        x.new_zeros(2),
        x.new_tensor([1.0]),
        torch.zeros_like(x),
        torch.randn_like(x),
        torch.ones(2).type_as(x),
        torch.ones(2).to(x),
        x.half(),
        x[0],
        x.t(),
        x.nonzero(),
        x[x > 0],
        x.max(1).indices,
        x.unique(),
        torch.cat([x, x]),
        F.one_hot(x.long()),
        torch.fft.fft(x),
        torch.as_tensor(x),
        torch.tensor(x),
        torch.einsum("ij,kj->ik", x, x),
    ):
        assert str(follower.device) == "cuda:1"
    for leaver in (
        x.new_zeros(2, device="cpu"),
        torch.empty_like(x, device="cpu"),
        x.cpu(),
        torch.tensor([1.0]),
    ):
        assert str(leaver.device) == "cpu"


def test_data_from_numpy_is_copied_to_the_gpu_and_shared_on_the_cpu() -> None:
    array = numpy.ones(3)
    shared, copied = torch.from_numpy(array), torch.as_tensor(array, device="cuda")
    array[0] = 7

    assert shared[0] == 7
    assert copied.tolist() == [1, 1, 1]


def test_a_default_device_concerns_factories_and_not_legacy_constructors() -> None:
    with torch.device("cuda:1"):
        inside = [torch.arange(3), nn.Linear(2, 2).weight, torch.tensor([1]), torch.rand(2, device="cpu")]
        legacy = torch.Tensor(2)
    torch.set_default_device("cuda")
    try:
        default = torch.ones(2)
        read = torch.get_default_device()
    finally:
        torch.set_default_device(None)

    assert [str(t.device) for t in inside] == ["cuda:1", "cuda:1", "cuda:1", "cpu"]
    assert str(legacy.device) == "cpu"
    assert default.is_cuda and read.type == "cuda"
    assert torch.ones(2).device.type == "cpu"


def test_module_to_keeps_its_parameters_and_moves_their_gradients() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    parameters = list(module.parameters())
    module(torch.ones(3, 2)).sum().backward()
    module.to("cuda")

    assert [a is b for a, b in zip(parameters, module.parameters(), strict=True)] == [True] * 4
    assert {str(t.device) for t in (*module.parameters(), *module.buffers())} == {"cuda:0"}
    assert {str(p.grad.device) for p in parameters} == {"cuda:0"}


def test_copies_are_where_the_original_is() -> None:
    module = nn.Linear(2, 2).cuda()

    assert copy.deepcopy(module).weight.is_cuda
    assert copy.deepcopy(torch.ones(2, device="cuda")).is_cuda
    assert copy.copy(torch.ones(2, device="cuda")).is_cuda


def test_printing_shows_the_device() -> None:
    assert repr(torch.ones(2, device="cuda:1")) == "tensor([1., 1.], device='cuda:1')"
    assert repr(torch.ones(2)) == "tensor([1., 1.])"


def test_meta_tensors_have_no_data_to_move() -> None:
    with torch.device("meta"):
        module = nn.Linear(2, 2)

    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        module.weight.to("cuda")
    assert module.to_empty(device="cuda").weight.is_cuda


def test_a_gpu_that_is_not_there_is_refused_with_cudas_words() -> None:
    with pytest.raises(torch.AcceleratorError, match="CUDA error: invalid device ordinal"):
        torch.zeros(1, device="cuda:7")
    with pytest.raises(torch.AcceleratorError, match="CUDA error: invalid device ordinal"):
        torch.zeros(1).to("cuda:2")


# -- refusals --------------------------------------------------------------------------------------


def test_operands_on_two_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match=TENSOR_ITERATOR):
        torch.ones(3, device="cuda") + torch.ones(3)
    with pytest.raises(RuntimeError, match="got mat1 is on cpu, different from other tensors on cuda:0"):
        nn.Linear(2, 2).cuda()(torch.ones(1, 2))
    with pytest.raises(RuntimeError, match="cuda:1 and cuda:0!"):
        torch.ones(3, device="cuda:1") * torch.ones(3, device="cuda:0")


def test_a_cpu_scalar_may_meet_a_gpu_tensor() -> None:
    assert (torch.ones(3, device="cuda") * torch.tensor(2.0)).is_cuda


def test_a_tensor_that_no_mode_saw_is_on_the_cpu() -> None:
    unseen = torch.Tensor([1.0, 2.0])

    with pytest.raises(RuntimeError, match=TENSOR_ITERATOR):
        unseen + torch.ones(2, device="cuda")


def test_numpy_sees_host_memory_only() -> None:
    x = torch.ones(2, device="cuda:1")
    words = (
        "can't convert cuda:1 device type tensor to numpy. "
        "Use Tensor.cpu\\(\\) to copy the tensor to host memory first."
    )
    for call in (x.numpy, lambda: numpy.asarray(x), lambda: numpy.mean([x, x])):
        with pytest.raises(TypeError, match=words):
            call()

    assert x.numpy(force=True).tolist() == [1, 1]
    assert (x.tolist(), x[0].item(), float(x[1])) == ([1, 1], 1, 1)


def test_a_refused_in_place_operation_changes_nothing() -> None:
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match=TENSOR_ITERATOR):
        x.add_(torch.ones(3))

    assert x.tolist() == [1, 1, 1]


def test_storages_are_not_exchanged_across_devices() -> None:
    x = torch.ones(2, device="cuda")

    with pytest.raises(RuntimeError, match="Attempted to set the storage of a tensor on device"):
        x.set_(torch.ones(2))
    x.data = torch.zeros(2)
    assert str(x.device) == "cpu"


# -- gradients -------------------------------------------------------------------------------------


def test_a_move_is_differentiable_and_its_backward_moves_back() -> None:
    x = torch.randn(3, requires_grad=True)
    (x.cuda() ** 3).sum().backward()
    first = x.grad
    (twice,) = torch.autograd.grad((x.cuda() ** 3).sum(), x, create_graph=True)
    twice.sum().backward()

    assert str(first.device) == "cpu"
    assert str(x.grad.device) == "cpu"
    assert torch.allclose(x.grad, 3 * x.detach() ** 2 + 6 * x.detach())


def test_a_graph_that_spans_two_gpus_gives_each_parameter_its_gradient() -> None:
    first, second = nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1")
    second(first(torch.ones(1, 2, device="cuda:0")).to("cuda:1")).sum().backward()

    assert first.weight.grad.device == first.weight.device
    assert second.weight.grad.device == second.weight.device


def test_gradients_that_cpp_makes_are_where_their_tensors_are() -> None:
    for use in (
        lambda x: x.max(1).values,
        lambda x: x[1:],
        lambda x: x.unbind(0)[0],
        lambda x: x[torch.tensor([0, 1])],
        lambda x: x.sort()[0][:, :2],
        lambda x: torch.linalg.svdvals(x),
        lambda x: F.pad(x, (1, 1)),
    ):
        x = torch.randn(3, 4, device="cuda:1", requires_grad=True)
        use(x).sum().backward()

        assert str(x.grad.device) == "cuda:1"


def test_a_backward_pass_on_the_cpu_after_one_on_the_gpu_stays_on_the_cpu(gpus: Any) -> None:
    kept = {}
    for device in ("cuda", "cpu"):
        x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
        moved = x.clone().to("cpu" if device == "cuda" else device)  # Python takes part from here on
        loss = torch.nn.functional.l1_loss(x, torch.zeros(2, device=device), reduction="none")
        loss.backward(torch.ones(2, device=device))
        kept[device] = (x.grad.tolist(), x.grad.device.type, moved.device.type)

    assert kept == {"cuda": ([1.0, 1.0], "cuda", "cpu"), "cpu": ([1.0, 1.0], "cpu", "cpu")}


def test_custom_functions_see_gradients_on_the_gpu() -> None:
    seen = []

    class Split(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, one: Any, two: Any) -> Any:
            seen.extend(str(t.device) for t in (one, two, ctx.saved_tensors[0]))
            return one + two

    x = torch.ones(3, device="cuda:1", requires_grad=True)
    Split.apply(x)[0].sum().backward()  # the other output gets a zero gradient that C++ makes

    assert seen == ["cuda:1"] * 3
    assert str(x.grad.device) == "cuda:1"


def test_a_custom_backward_that_returns_a_cpu_gradient_is_refused() -> None:
    class Careless(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return torch.from_numpy(gradient.cpu().numpy() * 2)

    x = torch.ones(3, device="cuda", requires_grad=True) * 1
    with pytest.raises(RuntimeError) as error:
        Careless.apply(x).sum().backward()

    assert str(error.value) == (
        "Function CarelessBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cpu"
    )


def test_gradients_given_from_outside_must_be_on_the_outputs_device() -> None:
    y = torch.ones(3, device="cuda", requires_grad=True) * 2
    with pytest.raises(
        RuntimeError, match=r"^invalid gradient at index 0 - expected device cuda:0 but got cpu$"
    ):
        y.backward(torch.ones(3))
    y.backward(torch.ones(3, device="cuda"))

    scalar = (torch.ones(3, device="cuda", requires_grad=True) * 2).sum()
    scalar.backward(torch.tensor(1.0))  # a gradient without dimensions is moved silently


def test_gradients_are_not_assigned_across_devices() -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    words = "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'"
    with pytest.raises(RuntimeError, match=words):
        x.grad = torch.ones(2)
    x.grad = torch.ones(2, device="cuda")
    x.grad = None


def test_hooks_see_gradients_on_the_gpu() -> None:
    seen = []
    module = nn.Linear(3, 3).cuda()
    module.register_forward_hook(lambda m, i, o: seen.append(o.device))
    module.register_full_backward_hook(lambda m, i, o: seen.append(o[0].device))
    x = torch.ones(1, 3, device="cuda", requires_grad=True)
    x.register_hook(lambda g: seen.append(g.device))
    module.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device))
    module(x).sum().backward()

    assert {str(d) for d in seen} == {"cuda:0"}
    assert len(seen) == 4


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_recompute_on_the_same_device(reentrant: bool) -> None:
    block = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.LayerNorm(3)).cuda()
    x = torch.randn(2, 3, device="cuda", requires_grad=True)
    checkpoint(block, x, use_reentrant=reentrant).sum().backward()

    assert x.grad.is_cuda
    assert block[0].weight.grad.is_cuda


# -- functions of functions ------------------------------------------------------------------------


def test_vmap_and_func_follow_their_inputs() -> None:
    x, w = torch.randn(4, 3, device="cuda"), torch.randn(3, device="cuda")
    module = nn.Linear(3, 2).cuda()

    assert torch.func.vmap(lambda a: (a * w).sum())(x).is_cuda
    assert torch.func.grad(lambda a: (a**2).sum())(x).is_cuda
    assert torch.func.grad(lambda a: (a.to("cuda") ** 2).sum())(torch.ones(3)).device.type == "cpu"
    assert torch.func.jacrev(lambda a: a**2)(w).is_cuda
    assert torch.func.jacfwd(lambda a: a**2)(w).is_cuda
    assert torch.func.functional_call(module, dict(module.named_parameters()), (x,)).is_cuda
    with pytest.raises(RuntimeError, match="same device"):
        torch.func.vmap(lambda a: a + torch.zeros(3))(x)


class Wave(nn.Module):
    """Makes a table in `forward` on the device of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, t: Any) -> Any:
        steps = torch.arange(4, dtype=torch.float32, device=t.device)
        return self.proj(torch.sin(t[:, None] * steps))


def test_a_trace_keeps_the_device_it_was_traced_on(recwarn: pytest.WarningsRecorder) -> None:
    on_gpu = torch.jit.trace(Wave().cuda().eval(), torch.rand(3, device="cuda"))
    moved = torch.jit.trace(Wave().eval(), torch.rand(3)).to("cuda")

    for _ in range(3):  # the interpreter optimises the graph after some calls
        assert on_gpu(torch.rand(3, device="cuda")).is_cuda
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        moved(torch.rand(3, device="cuda"))


def test_scripted_functions_run_eagerly_and_it_is_said(gpus: Any, recwarn: pytest.WarningsRecorder) -> None:
    @torch.jit.script
    def shifted(x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros(3, device=x.device)

    assert shifted(torch.ones(3, device="cuda")).is_cuda
    assert any("torch.jit.script" in note for note in gpus.session.notes)


def test_kernels_of_custom_operators_see_gpu_tensors() -> None:
    seen = []

    @torch.library.custom_op("samedevice_tests::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        seen.append(str(x.device))
        return x * 2

    assert double(torch.ones(2, device="cuda")).is_cuda
    assert seen == ["cuda:0"]


def test_sparse_tensors_have_devices() -> None:
    sparse = torch.eye(3).to_sparse().cuda()
    dense = torch.ones(3, 3, device="cuda")

    assert sparse.is_cuda
    assert torch.sparse.mm(sparse, dense).is_cuda
    assert sparse.to_dense().is_cuda
    assert sparse.coalesce().values().is_cuda
    assert torch.eye(3).to_sparse_csr().cuda().is_cuda


def test_memory_is_counted_and_given_back() -> None:
    before = torch.cuda.memory_allocated()
    x = torch.ones(1 << 20, device="cuda")
    held = torch.cuda.memory_allocated()
    del x

    assert held - before == 4 << 20
    assert torch.cuda.memory_allocated() == before


def test_parametrizations_and_lazy_modules_work() -> None:
    x = torch.ones(1, 3, device="cuda")

    assert nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)).cuda()(x).is_cuda
    assert nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).cuda()(x).is_cuda
    assert nn.LazyLinear(4).cuda()(x).is_cuda
