"""What PyTorch's own tests found: ways of CUDA that no mismatch has to do with."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.utils._python_dispatch import return_and_correct_aliasing  # noqa: E402
from torch.utils._pytree import tree_map  # noqa: E402

import samedevice  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def two_gpus() -> Iterator[None]:
    with warnings.catch_warnings(), samedevice.virtual_gpus(2):
        warnings.filterwarnings("ignore", "Sparse|The PyTorch API of nested tensors")
        yield


def warned(action: str, twice: bool) -> list[tuple[str, int]]:
    """File and line of each warning shown of calls on two lines, made once or twice."""
    values, old = torch.ones(3, device="cuda"), torch.ones(3, dtype=torch.uint8, device="cuda")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        for _ in range(1 + twice):
            values[old]
            values[old]
    first = warned.__code__.co_firstlineno + 6
    return [(warning.filename, warning.lineno - first) for warning in shown]


def test_a_warning_from_cpp_is_shown_once_for_each_line_of_the_program() -> None:
    assert warned("default", True) == [(__file__, 0), (__file__, 1)]


def test_filters_of_warnings_count_as_they_do_without_virtual_gpus() -> None:
    assert warned("always", True) == [(__file__, 0), (__file__, 1)] * 2
    assert warned("once", True) == [(__file__, 0)]
    assert warned("module", True) == [(__file__, 0)]
    assert warned("ignore", True) == []


def test_a_filter_by_module_sees_the_program_s_module() -> None:
    values, old = torch.ones(3, device="cuda"), torch.ones(3, dtype=torch.uint8, device="cuda")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module=__name__.replace(".", r"\."))
        with pytest.raises(UserWarning, match=r"torch\.uint8 is now deprecated"):
            values[old]


def test_legacy_constructors_and_default_types_warn_once() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            torch.cuda.FloatTensor(2)
            torch.set_default_tensor_type(torch.cuda.FloatTensor)
            torch.set_default_tensor_type(torch.FloatTensor)
        finally:
            torch.set_warn_always(False)

    assert [str(warning.message).partition(" ")[0] for warning in shown] == [
        "The", "torch.set_default_tensor_type()", "torch.set_default_tensor_type()",
    ]  # fmt: skip


def test_a_tensor_is_made_of_a_storage_on_a_gpu() -> None:
    x = torch.arange(6.0, device="cuda:1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typed = torch.tensor(x.storage(), device="cuda:1")
        untyped = torch.tensor(x.untyped_storage(), dtype=torch.float32, device="cuda:1")

    assert typed.tolist() == untyped.tolist() == x.tolist()
    assert str(typed.device) == str(untyped.device) == "cuda:1"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_only_storages_on_a_gpu_are_shared_by_handle(device: str) -> None:
    with pytest.raises(RuntimeError, match=r"^_share_cuda_: only available on CUDA$"):
        torch.UntypedStorage(4, device=device)._share_cuda_()


def test_the_parts_of_a_sparse_tensor_go_where_it_is_asked_for() -> None:
    indices, values = torch.tensor([[0, 1], [1, 0]]), torch.ones(2)
    coo = torch.sparse_coo_tensor(indices, values, (2, 2), device="cuda:1")
    csr = torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), indices[1], values, (2, 2), device="cuda:1")
    parts = (coo, coo._indices(), coo._values(), csr, csr.crow_indices(), csr.col_indices(), csr.values())

    assert [str(part.device) for part in parts] == ["cuda:1"] * 7
    assert str(values.device) == "cpu"


def test_the_scaler_finds_sparse_gradients_that_were_made_of_host_tensors() -> None:
    weight = torch.zeros(2, 2, device="cuda").to_sparse()
    values = torch.tensor([1.0, float("inf")])
    weight.grad = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), values, (2, 2), device="cuda")
    found = torch.amp.GradScaler("cuda")._unscale_grads_(
        torch.optim.SGD([weight], lr=1.0),
        torch.ones(1, device="cuda"),
        torch.zeros(1, device="cuda"),
        False,
    )

    assert {str(device): value.item() for device, value in found.items()} == {"cuda:0": 1.0}


def test_gradients_of_outputs_that_nothing_used_are_where_the_outputs_were() -> None:
    seen = []

    class Spread(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x.to("cuda:0"), x.to("cuda:1"), x.to("cpu")

        @staticmethod
        def backward(ctx, *gradients):  # type: ignore[no-untyped-def]
            seen.extend(str(gradient.device) for gradient in gradients)
            return gradients[0] + gradients[1].to("cuda:0")

    x = torch.ones(3, device="cuda:0", requires_grad=True)
    (Spread.apply(x)[1] * 2).sum().backward()

    assert seen == ["cuda:0", "cuda:1", "cpu"]
    assert x.grad is not None and x.grad.tolist() == [2.0] * 3


def test_numbers_in_traced_code_stay_numbers() -> None:
    loss = torch.nn.TripletMarginWithDistanceLoss(margin=0.5, swap=True)
    operands = [torch.full((2, 3), value, device="cuda") for value in (1.0, 2.0, 3.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(loss, operands)

    assert traced(*operands).item() == loss(*operands).item()


def test_nested_tensors_are_made_where_they_are_asked_for() -> None:
    parts = [torch.ones(2, 4, device="cuda:1"), torch.ones(3, 4, device="cuda:1")]
    hosts = [part.cpu() for part in parts]
    made = {
        "as their parts": torch.nested.nested_tensor(parts),
        "asked for": torch.nested.nested_tensor(hosts, device="cuda:1"),
        "of lists": torch.nested.nested_tensor([[1.0], [2.0, 3.0]], device="cuda:1"),
        "of parts": torch.nested.as_nested_tensor(parts),
        "moved": torch.nested.as_nested_tensor(hosts, device="cuda:1"),
        "padded": torch.nested.nested_tensor(hosts, device="cuda:1").to_padded_tensor(0.0),
        "jagged": torch.nested.nested_tensor(hosts, device="cuda:1", layout=torch.jagged),
    }

    assert {name: str(tensor.device) for name, tensor in made.items()} == dict.fromkeys(made, "cuda:1")
    assert str(torch.nested.nested_tensor(hosts).device) == "cpu"


@pytest.fixture
def deterministic() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


#: calls on a GPU, and what the kernel that is not deterministic calls itself
ALERTS = {
    "adaptive_avg_pool2d_backward_cuda": lambda x: F.adaptive_avg_pool2d(x, 2).sum().backward(),
    "upsample_bicubic2d_backward_out_cuda": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic").sum().backward(),
    "reflection_pad1d_backward_out_cuda": lambda x: F.pad(x[0], (1, 1), mode="reflect").sum().backward(),
    "grid_sampler_2d_backward_cuda": lambda x: F.grid_sample(
        x, torch.zeros(1, 2, 2, 2, device="cuda"), align_corners=False
    ).sum().backward(),
    "nll_loss2d_forward_out_cuda_template": lambda x: F.nll_loss(
        x, torch.zeros(1, 4, 4, dtype=torch.long, device="cuda")
    ),
    "_histc_cuda with floating point input": lambda x: x.detach().histc(min=0, max=1),
    "median CUDA with indices output": lambda x: x.median(0),
    "put_": lambda x: x.detach().take(torch.zeros(1, dtype=torch.long, device="cuda")).put_(
        torch.zeros(1, dtype=torch.long, device="cuda"), torch.ones(1, device="cuda"), accumulate=True
    ),
    "scatter_reduce_cuda_prod_": lambda x: x.detach()[0, 0, 0].scatter_reduce(
        0, torch.zeros(1, dtype=torch.long, device="cuda"), torch.ones(1, device="cuda"), "prod"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kernel", ALERTS)
def test_an_operation_that_is_not_deterministic_on_cuda_refuses_when_told_to(
    kernel: str, deterministic: None
) -> None:
    x = torch.rand(1, 3, 4, 4, device="cuda", requires_grad=True)
    ALERTS[kernel](x)
    torch.use_deterministic_algorithms(True)
    words = f"^{kernel} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms"
    with pytest.raises(RuntimeError, match=words):
        ALERTS[kernel](x)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=words):
        ALERTS[kernel](x)


def test_what_is_deterministic_on_cuda_goes_on(deterministic: None) -> None:
    torch.use_deterministic_algorithms(True)
    x = torch.rand(1, 3, 4, 4, device="cuda", requires_grad=True)
    index = torch.zeros(4, dtype=torch.long, device="cuda")
    F.nll_loss(x, torch.zeros(1, 4, 4, dtype=torch.long, device="cuda"), reduction="none")
    F.cross_entropy(x[0, 0], index).backward()
    x.detach().median(), x.detach().cumsum(0), torch.bincount(index)
    x.detach()[0, 0, 0].scatter_add(0, index, torch.ones(4, device="cuda"))
    F.adaptive_avg_pool2d(x, 1).sum().backward()
    F.adaptive_avg_pool2d(x.cpu().detach().requires_grad_(), 2).sum().backward()

    assert torch.are_deterministic_algorithms_enabled()


def test_functions_ask_no_subclass_that_is_switched_off() -> None:
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return NotImplemented

    x = torch.ones(2, device="cuda").as_subclass(Refusing)
    with torch._C.DisableTorchFunctionSubclass():
        assert torch.nn.functional.relu(x).sum().item() == 2.0


def test_the_parts_of_a_nested_tensor_are_on_one_device_whatever_is_asked_for() -> None:
    parts = [torch.ones(2, 3, device="cuda"), torch.ones(2, 3)]
    words = "got tensors is on cpu, different from other tensors on cuda:0"
    for make in (torch.nested.nested_tensor, torch.nested.as_nested_tensor):
        for options in ({}, {"device": "cuda"}):
            with pytest.raises(RuntimeError, match=words):
                make(parts, **options)


def test_a_custom_function_may_change_a_view_in_place() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return gradient * 2

    x = torch.ones(3, device="cuda", requires_grad=True)
    base = x * 1
    Doubled.apply(base[:2])
    base.sum().backward()

    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0, 1.0]


#: arguments of `torch.asarray`, and what CUDA's build says of them
ALIASES = {
    "gpu, copy=False": "cuda:0",
    "gpu, device='cuda:0', copy=False": "cuda:0",
    "gpu, device='cuda', copy=False": "can't alias tensor from device 'cuda:0' to 'cuda'.",
    "gpu, device='cuda:1', copy=False": "can't alias tensor from device 'cuda:0' to 'cuda:1'.",
    "gpu, device='cpu', copy=False": "can't alias tensor from device 'cuda:0' to 'cpu'.",
    "host, device='cuda', copy=False": "can't alias tensor from device 'cpu' to 'cuda'.",
    "host.numpy(), device='cuda', copy=False": "can't alias tensor from device 'cpu' to 'cuda'.",
    "gpu, dtype=torch.float64, copy=False": "can't alias tensor with dtype 'Float' into dtype 'Double'.",
    "[1.0], device='cuda', copy=False": "can't alias arbitrary sequence into a tensor.",
    "gpu, device='cuda:1'": "cuda:1",
    "to_dlpack(gpu)": "cuda:0",
    "to_dlpack(gpu), copy=True": "cuda:0",
    "to_dlpack(gpu), device='cpu'": "cpu",
    "to_dlpack(gpu), device='cuda:1', dtype=torch.float64": "cuda:1",
    "to_dlpack(host), device='cuda'": "cuda:0",
}


@pytest.mark.parametrize("arguments", ALIASES)
def test_asarray_copies_or_refuses_as_on_cuda(arguments: str) -> None:
    names = {
        "torch": torch,
        "gpu": torch.arange(3.0, device="cuda:0"),
        "host": torch.arange(3.0),
        "to_dlpack": torch.utils.dlpack.to_dlpack,
    }
    try:
        found = str(eval(f"torch.asarray({arguments})", names).device)
    except ValueError as error:
        found = str(error)

    assert found == ALIASES[arguments]


def test_asarray_requires_a_gradient_when_told_to() -> None:
    x = torch.arange(3.0, device="cuda")
    copied = torch.asarray(x, copy=True, requires_grad=True)

    assert copied.requires_grad
    assert not torch.asarray(copied * 2, requires_grad=False).requires_grad


def test_the_deprecated_range_takes_a_device() -> None:
    with pytest.warns(UserWarning, match=r"torch\.range is deprecated"):
        x = torch.range(0, 2, device="cuda:1")

    assert (str(x.device), x.tolist()) == ("cuda:1", [0.0, 1.0, 2.0])


def test_an_empty_draw_asks_no_generator_where_it_is() -> None:
    host, gpu = torch.Generator(), torch.Generator("cuda")
    drawn = [
        torch.randperm(0, device="cuda", generator=host),
        torch.randn(2, 0, device="cuda", generator=host),
        torch.randint(3, (0,), device="cuda", generator=host),
        torch.empty(0, device="cuda").normal_(generator=host),
    ]

    assert {str(x.device) for x in drawn} == {"cuda:0"}
    assert str(torch.randperm(0, generator=gpu).device) == "cpu"
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.randperm(1, device="cuda", generator=host)


def test_a_generator_that_goes_by_position_is_judged_too() -> None:
    rates = torch.ones(3, device="cuda")
    for draw in (torch.poisson, torch._standard_gamma):
        assert str(draw(rates, generator=torch.Generator("cuda")).device) == "cuda:0"
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
            draw(rates, generator=torch.Generator())


def test_an_index_from_the_host_makes_it_wait_and_a_counted_one_hot_does_not() -> None:
    x, index = torch.rand(4, device="cuda"), torch.tensor([0, 2])
    torch.cuda.set_sync_debug_mode("error")
    try:
        F.one_hot(index.to("cuda", non_blocking=True), num_classes=4)
        x[torch.tensor([True, False, True, False])]
        for wait in (lambda: x[index], lambda: F.one_hot(index.to("cuda", non_blocking=True))):
            with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
                wait()
    finally:
        torch.cuda.set_sync_debug_mode("default")


class Pair(torch.Tensor):
    """Two tensors in one, as quantized weights are; its views alias their source."""

    @staticmethod
    def __new__(cls, one: torch.Tensor, two: torch.Tensor) -> "Pair":
        return torch.Tensor._make_wrapper_subclass(cls, one.shape, dtype=one.dtype, device=one.device)

    def __init__(self, one: torch.Tensor, two: torch.Tensor) -> None:
        self.one, self.two = one, two

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["one", "two"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def part(name: str) -> Any:
            mine = tree_map(lambda value: getattr(value, name) if isinstance(value, Pair) else value, args)
            return func(*mine, **(kwargs or {}))

        out = part("one"), part("two")
        pair = (
            Pair(*out)
            if isinstance(out[0], torch.Tensor)
            else [Pair(*both) for both in zip(*out, strict=True)]
        )
        return return_and_correct_aliasing(func, args, kwargs, pair)


class Holder(torch.Tensor):
    """A wrapper that does not say what it is made of."""

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "Holder":
        made = torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=held.device)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        mine = tree_map(lambda value: value.held if isinstance(value, Holder) else value, args)
        return Holder(func(*mine, **(kwargs or {})))


def test_a_wrapper_subclass_has_views_and_copies_on_its_gpu() -> None:
    pair = Pair(torch.ones(4, 2, device="cuda:1"), torch.zeros(4, 2, device="cuda:1"))

    results = [pair.view(8), pair.t(), pair[0], pair.detach(), pair + 1, *torch.split(pair, 2), pair.clone()]

    assert {(type(result), str(result.device)) for result in results} == {(Pair, "cuda:1")}
    assert str(pair.to("cpu").device) == "cpu"
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        pair + torch.ones(4, 2)


def test_a_wrapper_subclass_that_names_no_parts_is_where_it_was_made() -> None:
    before = torch.cuda.memory_allocated(1)
    held = torch.ones(128, device="cuda:1")
    holder = Holder(held)

    assert (str(holder.device), holder.is_cuda, str((holder * 2).device)) == ("cuda:1", True, "cuda:1")
    assert torch.cuda.memory_allocated(1) - before == 512


def test_a_gradient_is_given_to_a_nested_tensor() -> None:
    parts = [torch.ones(2, 3, device="cuda:1", requires_grad=True), torch.ones(1, 3, device="cuda:1")]
    nested = torch.nested.as_nested_tensor(parts, device="cuda:1") * 2

    nested.backward(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], device="cuda:1"))

    assert (parts[0].grad.tolist(), str(parts[0].grad.device)) == ([[2.0] * 3] * 2, "cuda:1")


def test_a_jagged_tensor_has_gradients_on_its_gpu() -> None:
    jagged = torch.nested.nested_tensor(
        [torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged, device="cuda:1", requires_grad=True
    )

    (jagged * 2).values().sum().backward()

    assert (jagged.grad.values().tolist(), str(jagged.grad.device)) == ([[2.0] * 3] * 3, "cuda:1")


def test_the_compiler_is_reset() -> None:
    torch.compiler.reset()
