"""Optimizers whose kernels for CUDA differ from the CPU's."""

import pytest
import torch

import samedevice


def test_sparse_adam_steps_on_a_gpu_as_it_does_on_the_cpu() -> None:
    def stepped(device: str) -> torch.Tensor:
        weight = torch.nn.Parameter(torch.arange(6.0, device=device).reshape(3, 2))
        optimizer = torch.optim.SparseAdam([weight], lr=0.1)
        for _ in range(2):
            weight.grad = torch.tensor([[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]], device=device).to_sparse()
            optimizer.step()
        assert weight.device.type == device
        return weight.detach().cpu()

    expected = stepped("cpu")
    with samedevice.virtual_gpus(1):
        assert torch.equal(stepped("cuda"), expected)


def test_a_sparse_tensor_made_by_new_is_where_its_model_is() -> None:
    with samedevice.virtual_gpus(2):
        model = torch.eye(3, device="cuda:1").to_sparse()
        made = model.new(model._indices(), model._values(), model.size())
        assert (made.device, made._values().device) == (model.device, model.device)
        assert torch.equal(made.to_dense().cpu(), torch.eye(3))


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_the_fused_kernel_takes_moments_in_bfloat16(kind: type[torch.optim.Adam], amsgrad: bool) -> None:
    names = ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if amsgrad else []))
    with samedevice.virtual_gpus(1):
        start = torch.rand(4, 3, device="cuda")
        narrow, exact = start.clone(), start.clone()
        narrow.grad, exact.grad = torch.ones_like(start), torch.ones_like(start)
        optimizers = [kind([tensor], fused=True, amsgrad=amsgrad) for tensor in (narrow, exact)]
        state = optimizers[0].state[narrow]
        state["step"] = torch.zeros((), device="cuda")
        for name in names:
            state[name] = torch.zeros_like(narrow, dtype=torch.bfloat16)
        for optimizer in optimizers:
            optimizer.step()
        assert torch.equal(narrow, exact)
        assert all(state[name].dtype is torch.bfloat16 and state[name].is_cuda for name in names)
        reference = optimizers[1].state[exact]
        assert all(torch.equal(state[name], reference[name].bfloat16()) for name in names)
