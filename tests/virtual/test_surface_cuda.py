"""`torch.cuda` and `torch.accelerator` as a program on a machine with GPUs sees them."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from samedevice import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch

MIB = 1 << 20


@pytest.fixture
def gpus() -> Iterator[Any]:
    with virtual_gpus(2) as engine:
        yield engine


def test_the_machine_has_the_gpus_asked_for(gpus: Any) -> None:
    properties = torch.cuda.get_device_properties("cuda:1")

    assert (torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device()) == (True, 2, 0)
    assert torch.cuda.get_device_name() == properties.name == "Virtual GPU"
    assert torch.cuda.get_device_capability() == (9, 0)
    assert properties.total_memory == 80 << 30
    assert repr(properties).startswith("_CudaDeviceProperties(name='Virtual GPU', major=9, minor=0")
    assert torch.cuda.is_bf16_supported()
    assert "sm_90" in torch.cuda.get_arch_list()
    assert torch.cuda.can_device_access_peer(0, 1)
    assert torch.backends.cuda.is_built() and torch.backends.cudnn.is_available()
    assert torch.version.cuda is not None


def test_the_current_device_can_be_changed_and_is_put_back(gpus: Any) -> None:
    seen = []
    torch.cuda.set_device(1)
    seen.append(torch.cuda.current_device())
    with torch.cuda.device(0):
        seen.append(torch.empty(1, device="cuda").device.index)
    with torch.cuda.device_of(torch.empty(1, device="cuda:0")):
        seen.append(torch.cuda.current_device())
    seen.append(torch.empty(1).cuda().device.index)
    torch.accelerator.set_device_index(0)
    seen.append(torch.accelerator.current_device_index())

    assert seen == [1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.cuda.set_device(7),
        lambda: torch.zeros(1, device="cuda:7"),
        lambda: torch.zeros(1).to("cuda:7"),
        lambda: torch.cuda.Stream(7),
        lambda: torch.accelerator.set_device_index(7),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_in_cudas_words(gpus: Any, use: Any) -> None:
    with pytest.raises(torch.AcceleratorError) as caught:
        use()

    assert str(caught.value).splitlines()[:2] == [
        "CUDA error: invalid device ordinal",
        "GPU device may be out of range, do you have enough GPUs?",
    ]
    assert caught.value.error_code == 101


def test_the_program_may_hide_gpus_but_an_environment_without_any_is_not_obeyed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with virtual_gpus(2):
        assert torch.cuda.device_count() == 2
    with virtual_gpus(2):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        assert torch.cuda.device_count() == 1
    with virtual_gpus(2):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        assert not torch.cuda.is_available()


def test_streams_and_events_keep_their_order_and_their_classes(gpus: Any) -> None:
    stream = torch.cuda.Stream(device=1)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        inside = torch.cuda.current_stream(), torch.cuda.current_device()
        start.record()
        result = torch.ones(2, device="cuda") + 1
        end.record()
    stream.wait_stream(torch.cuda.default_stream())
    torch.cuda.current_stream().wait_event(end)
    result.record_stream(stream)
    torch.cuda.synchronize()

    assert inside == (stream, 1)
    assert torch.cuda.current_stream() == torch.cuda.default_stream(0) != stream
    assert start.elapsed_time(end) > 0
    assert end.query() and stream.query()
    assert isinstance(stream, torch.cuda.Stream) and isinstance(stream, torch.Stream)
    assert isinstance(torch.Stream(device="cpu"), torch.Stream)
    assert not isinstance(torch.Stream(device="cuda"), torch.cuda.Stream)
    assert repr(stream).startswith("<torch.cuda.Stream device=cuda:1 cuda_stream=0x")
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.cuda.Event().elapsed_time(end)
    with pytest.raises(ValueError, match="must be recorded before"):
        torch.cuda.Event(enable_timing=True).elapsed_time(end)


def test_memory_is_counted_from_living_tensors(gpus: Any) -> None:
    before = torch.cuda.memory_allocated(1)
    held = torch.zeros(MIB, dtype=torch.uint8, device="cuda:1")
    view = held[:10]
    temporary = held + 1
    two = torch.cuda.memory_allocated(1) - before
    del temporary
    one = torch.cuda.memory_allocated(1) - before

    assert (two, one) == (2 * MIB, MIB)
    assert torch.cuda.max_memory_allocated(1) - before == 2 * MIB
    assert torch.cuda.memory_reserved(1) >= 2 * MIB
    torch.cuda.reset_peak_memory_stats(1)
    assert torch.cuda.max_memory_allocated(1) - before == MIB
    assert torch.accelerator.max_memory_allocated(1) - before == MIB
    held.untyped_storage().resize_(0)
    assert torch.cuda.memory_allocated(1) == before
    del held, view
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated(1) == before
    assert torch.cuda.mem_get_info(1)[1] == 80 << 30
    assert "PyTorch CUDA memory summary, device ID 1" in torch.cuda.memory_summary(1)


def test_a_full_gpu_raises_out_of_memory() -> None:
    with virtual_gpus(1, gpu_memory=4 * MIB):
        held = torch.zeros(3 * MIB, dtype=torch.uint8, device="cuda")
        try:
            held.clone()
        except torch.OutOfMemoryError as error:
            words = str(error)
            del held  # what programs do that try again with less
            held = torch.zeros(3 * MIB, dtype=torch.uint8, device="cuda")
        del held
        torch.cuda.set_per_process_memory_fraction(0.5)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.zeros(3 * MIB, dtype=torch.uint8, device="cuda")

    assert words.startswith(
        "CUDA out of memory. Tried to allocate 3.00 MiB. GPU 0 has a total capacity of 4.00 MiB of which "
    )
    assert "Of the allocated memory 3.00 MiB is allocated by PyTorch" in words


def test_the_accelerator_is_cuda(gpus: Any) -> None:
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.get_device_module() is torch.cuda
    assert torch.device(1) == torch.device("cuda:1")
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_stream().device == torch.device("cuda:1")
    torch.accelerator.synchronize()


def test_a_new_thread_has_the_gpus_too(gpus: Any) -> None:
    class Work(threading.Thread):
        def run(self) -> None:
            self.device = (torch.ones(2, device="cuda") + 1).device
            self.current = torch.cuda.current_device()

    torch.cuda.set_device(1)
    work = Work()
    work.start()
    work.join()

    assert (work.device, work.current) == (torch.device("cuda:0"), 0)
    assert "run" not in vars(work)


def test_flags_libraries_and_markers_answer(gpus: Any) -> None:
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark = False
    with torch.backends.cudnn.flags(enabled=False):
        pass
    with torch.cuda.nvtx.range("step"):
        torch.cuda.nvtx.mark("here")
    torch.cuda.cudart().cudaProfilerStart()

    assert torch.backends.cudnn.version() > 90000
    assert torch.backends.cuda.cufft_plan_cache[1].size == 0
    assert torch.nn.LSTM(2, 3).cuda()(torch.ones(4, 1, 2, device="cuda"))[0].is_cuda
    assert not torch.cuda.is_current_stream_capturing()


def test_torch_compile_runs_eagerly_and_says_so(gpus: Any) -> None:
    @torch.compile(dynamic=True)
    def double(x: Any) -> Any:
        return x * 2

    model = torch.compile(torch.nn.Linear(2, 2).cuda())

    assert double(torch.ones(1, device="cuda")).item() == 2
    assert list(model.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    assert model(torch.ones(1, 2, device="cuda")).is_cuda
    assert [note for note in gpus.session.notes if "torch.compile" in note] != []


def test_legacy_tensor_types_make_and_recognise_tensors_of_their_device(gpus: Any) -> None:
    made = torch.cuda.FloatTensor([1.0, 2.0])
    second = torch.cuda.LongTensor(2, device="cuda:1")

    assert (made.device, made.tolist()) == (torch.device("cuda:0"), [1.0, 2.0])
    assert (second.device, second.dtype, second.shape) == (torch.device("cuda:1"), torch.int64, (2,))
    assert isinstance(made, torch.cuda.FloatTensor) and not isinstance(made, torch.FloatTensor)
    assert isinstance(torch.ones(1), torch.FloatTensor) and not isinstance(made, torch.cuda.HalfTensor)
    assert torch.cuda.FloatTensor(made).data_ptr() == made.data_ptr()
    assert torch.ones(1).type(torch.cuda.HalfTensor).type() == "torch.cuda.HalfTensor"
    with pytest.raises(TypeError, match=r"expected TensorOptions\(dtype=float, device=cuda, layout=Strided"):
        torch.cuda.FloatTensor(torch.ones(2))
    with pytest.raises(
        RuntimeError, match="legacy constructor expects device type: cpu but device type: cuda"
    ):
        torch.FloatTensor(2, device="cuda")


def test_the_default_tensor_type_may_be_one_of_a_gpu() -> None:
    with virtual_gpus(1):
        torch.set_default_tensor_type("torch.cuda.DoubleTensor")
        default = torch.ones(1)
        described = default.device, default.dtype
        with pytest.raises(TypeError, match="only floating-point types"):
            torch.set_default_tensor_type(torch.cuda.LongTensor)

    assert described == (torch.device("cuda:0"), torch.float64)
    assert torch.ones(1).dtype is torch.float32 and torch.get_default_device() == torch.device("cpu")


def test_profilers_record_the_cpu_and_say_so(gpus: Any) -> None:
    activities = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activities.CPU, activities.CUDA]) as profile:
        torch.ones(2, device="cuda") + 1
    with torch.autograd.profiler.emit_nvtx():
        torch.ones(2, device="cuda") + 1

    assert "aten::add" in profile.key_averages().table(sort_by="cpu_time_total")
    assert [note for note in gpus.session.notes if "profiler" in note] != []


def test_settings_of_cublas_and_of_tuned_operations_are_kept(gpus: Any) -> None:
    tunable = torch.cuda.tunable
    tunable.enable(True)
    tunable.set_max_tuning_iterations(7)
    tunable.set_filename("tuned.csv", insert_device_ordinal=True)
    torch._C._cuda_setCublasWorkspaceSize(4096)

    assert (tunable.is_enabled(), tunable.tuning_is_enabled()) == (True, True)
    assert (tunable.get_max_tuning_iterations(), tunable.get_filename()) == (7, "tuned0.csv")
    assert torch._C._cuda_getCublasWorkspaceSize() == 4096
    torch._C._cuda_resetCublasWorkspaceSize()
    assert torch._C._cuda_getCublasWorkspaceSize() == 32 * 1024 * 1024
