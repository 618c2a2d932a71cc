"""A machine of virtual GPUs can have another number of them for a while, or none."""

import pytest

torch = pytest.importorskip("torch")

from samedevice import virtual_gpus  # noqa: E402
from samedevice.model.errors import UserError  # noqa: E402
from samedevice.virtual.activation import running  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_larger_machine_has_all_that_belongs_to_a_gpu():
    with virtual_gpus(1):
        x = torch.ones(3, device="cuda")
        assert torch.cuda.device_count() == 1
        with running().resized(3):
            assert (torch.cuda.device_count(), torch.accelerator.device_count()) == (3, 3)
            torch.cuda.manual_seed_all(1)
            assert torch.cuda.default_generators[2].initial_seed() == 1
            y = x.to("cuda:2")
            assert torch.cuda.memory_allocated(2) == 512
            torch.cuda.set_device(2)
            with torch.cuda.stream(torch.cuda.Stream(2)):
                assert (y + 1).device.index == 2
            assert torch.backends.cuda.cufft_plan_cache[2].size == 0
        assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
        assert len(torch.cuda.default_generators) == 1
        del y  # its bytes go back to a GPU that is no longer seen
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.ones(1, device="cuda:2")
        with pytest.raises(RuntimeError, match="expected 0 <= device index < 1"):
            torch.backends.cuda.cufft_plan_cache[1]


def test_a_smaller_machine_leaves_tensors_where_they_are():
    with virtual_gpus(2):
        torch.cuda.set_device(1)
        x = torch.ones(3, device="cuda")
        with running().resized(1):
            assert torch.cuda.current_device() == 0
            assert x.device == torch.device("cuda", 1)
        assert torch.cuda.current_device() == 1


def test_a_pause_is_the_machine_as_it_is():
    with virtual_gpus(1):
        x = torch.ones(3, device="cuda")
        with running().paused():
            assert not torch.cuda.is_available()
            assert torch._C._len_torch_function_stack() == 0
        assert (x + 1).device == x.device == torch.device("cuda", 0)
        assert torch.cuda.memory_allocated() == 512
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            x + torch.ones(3)


def test_more_gpus_than_pytorch_can_use_are_refused():
    with pytest.raises(UserError, match="120 GPUs"), virtual_gpus(121):
        pass
