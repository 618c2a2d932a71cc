"""What PyTorch's own tests found: ways of CUDA that no mismatch has to do with."""

import warnings
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import samedevice  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def two_gpus() -> Iterator[None]:
    with warnings.catch_warnings(), samedevice.virtual_gpus(2):
        warnings.filterwarnings("ignore", "Sparse")
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
