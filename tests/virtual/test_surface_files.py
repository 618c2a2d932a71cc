"""Checkpoints, copies and pickles of tensors on virtual GPUs."""

import copy
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from samedevice import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def gpus() -> Iterator[Any]:
    with virtual_gpus(2) as engine:
        yield engine


def _saved() -> bytes:
    buffer = io.BytesIO()
    with virtual_gpus(2):
        torch.save(
            {"a": torch.arange(3.0, device="cuda"), "b": torch.ones(2, device="cuda:1"), "c": torch.ones(1)},
            buffer,
        )
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("map_location", "expected"),
    [
        (None, ("cuda:0", "cuda:1", "cpu")),
        ("cpu", ("cpu", "cpu", "cpu")),
        ("cuda:1", ("cuda:1", "cuda:1", "cuda:1")),
        ("cuda", ("cuda:0", "cuda:0", "cuda:0")),
        ({"cuda:1": "cuda:0"}, ("cuda:0", "cuda:0", "cpu")),
        (lambda storage, location: storage, ("cpu", "cpu", "cpu")),
        (lambda storage, location: storage.cuda(1), ("cuda:1", "cuda:1", "cuda:1")),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_checkpoint_is_restored_where_it_was_saved_or_where_it_is_mapped(
    map_location: Any, expected: Any, weights_only: bool
) -> None:
    saved = _saved()
    with virtual_gpus(2):
        loaded = torch.load(io.BytesIO(saved), map_location=map_location, weights_only=weights_only)
        devices = tuple(str(loaded[name].device) for name in "abc")

    assert devices == expected
    assert loaded["a"].tolist() == [0.0, 1.0, 2.0]


def test_a_checkpoint_is_one_of_a_real_gpu() -> None:
    saved = _saved()

    if not torch.cuda.is_available():
        with pytest.raises(
            RuntimeError, match=r"on a CUDA device but torch\.cuda\.is_available\(\) is False"
        ):
            torch.load(io.BytesIO(saved))
    assert torch.load(io.BytesIO(saved), map_location="cpu")["b"].device.type == "cpu"
    with (
        virtual_gpus(1),
        pytest.raises(RuntimeError, match=r"on CUDA device 1 but torch\.cuda\.device_count\(\) is 1"),
    ):
        torch.load(io.BytesIO(saved))


def test_what_was_loaded_knows_that_it_was(gpus: Any) -> None:
    loaded = torch.load(io.BytesIO(_tensor_file()), map_location="cpu")

    from samedevice.virtual.tags import tag_of

    with torch._C.DisableTorchFunction():
        assert tag_of(loaded).birth.action == "loaded"


def _tensor_file() -> bytes:
    buffer = io.BytesIO()
    torch.save(torch.ones(2, device="cuda"), buffer)
    return buffer.getvalue()


def test_copies_and_pickles_stay_on_their_gpu(gpus: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to("cuda:1")
    tensor = torch.ones(2, device="cuda:1")
    twins = [
        copy.deepcopy(tensor),
        copy.copy(tensor),
        pickle.loads(pickle.dumps(tensor)),
        copy.deepcopy(model)[1].running_mean,
        pickle.loads(pickle.dumps(model))[0].weight,
        tensor.untyped_storage().clone(),
        copy.deepcopy(model.state_dict())["0.bias"],
    ]

    assert {str(twin.device) for twin in twins} == {"cuda:1"}


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_are_saved_pickled_and_mapped(gpus: Any, layout: Any) -> None:
    x = torch.eye(3, device="cuda:1").to_sparse(layout=layout)
    file = io.BytesIO()
    torch.save({"x": x}, file)
    written = file.getvalue()

    again = torch.load(io.BytesIO(written))["x"]
    mapped = torch.load(io.BytesIO(written), map_location="cpu")["x"]
    pickled = pickle.loads(pickle.dumps(x))

    assert [str(t.device) for t in (again, mapped, pickled)] == ["cuda:1", "cpu", "cuda:1"]
    assert all(t.layout == layout and t.to_dense().sum() == 3 for t in (again, mapped, pickled))
    assert b"samedevice" not in written


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_a_deep_copy_of_a_sparse_tensor_is_where_the_tensor_is(gpus: Any) -> None:
    x = torch.eye(3, device="cuda:1").to_sparse()
    x.note = "mine"

    twin = copy.deepcopy(x)

    assert (str(twin.device), twin.note, str((twin + x).device)) == ("cuda:1", "mine", "cuda:1")


def test_storages_say_where_they_are_and_can_be_moved(gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # PyTorch warns once in a process.
    monkeypatch.delattr(torch.storage._warn_typed_storage_removal, "has_warned", raising=False)
    storage = torch.ones(2, device="cuda:1").untyped_storage()

    assert (storage.device, storage.is_cuda, storage.get_device()) == (torch.device("cuda:1"), True, 1)
    assert storage.cpu().device == torch.device("cpu")
    assert storage.cpu().cuda(1).device == torch.device("cuda:1")
    assert torch.UntypedStorage(4, device="cuda").device == torch.device("cuda:0")
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        assert torch.ones(2, device="cuda").storage().device == torch.device("cuda:0")
    with pytest.raises(TypeError, match="only CPU memory can be pinned"):
        storage.pin_memory()


def test_tensors_cross_a_queue_between_processes(gpus: Any) -> None:
    queue = torch.multiprocessing.get_context("fork").Queue()
    queue.put(torch.arange(3.0, device="cuda:1"))

    assert queue.get().tolist() == [0.0, 1.0, 2.0]


def test_safetensors_load_onto_a_gpu(gpus: Any, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    file = tmp_path / "weights.safetensors"
    safetensors.save_file({"w": torch.arange(3.0, device="cuda")}, str(file))

    assert safetensors.load_file(str(file))["w"].device == torch.device("cpu")
    for device in ("cuda", "cuda:1"):
        loaded = safetensors.load_file(str(file), device=device)["w"]
        assert loaded.device == torch.device("cuda", torch.device(device).index or 0)
        assert loaded.tolist() == [0.0, 1.0, 2.0]
