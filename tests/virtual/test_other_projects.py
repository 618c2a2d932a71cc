"""What other projects' own tests asked of virtual GPUs, each as the mechanism behind it."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from samedevice import virtual_gpus  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_a_traced_convolution_is_in_the_trace_and_follows_its_module():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 2, 3), nn.MaxPool2d(2))
    x, other = torch.randn(1, 3, 8, 8), torch.randn(1, 3, 8, 8)
    expected = torch.jit.trace(model, x)(other)
    with virtual_gpus(1):
        traced = torch.jit.trace(model.cuda(), x.cuda())
        actual = traced(other.cuda())

        assert actual.device.type == "cuda"
        assert "aten::_convolution" in str(traced.inlined_graph)
        with pytest.raises(RuntimeError, match=r"should be the same|same device"):
            traced(other)
    assert torch.equal(actual, expected)


def test_a_tensor_prints_as_it_would_with_a_gpu():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    plain = [str(x), str(x * 2), str(nn.Parameter(torch.ones(1))), str(list(x.detach())), f"{x[0]:.1f}"]
    with virtual_gpus(2):
        assert [
            str(x),
            str(x * 2),
            str(nn.Parameter(torch.ones(1))),
            str(list(x.detach())),
            f"{x[0]:.1f}",
        ] == plain
        assert str(x.detach().cuda(1)) == "tensor([1., 2.], device='cuda:1')"
        assert str(x.cuda()) == "tensor([1., 2.], device='cuda:0', grad_fn=<ToCopyBackward0>)"


@pytest.mark.parametrize("kind", [bool, int, float, complex])
def test_python_types_are_dtypes_for_a_move(kind):
    expected = torch.ones(2).to(kind).dtype
    with virtual_gpus(1):
        on_gpu = torch.ones(2, device="cuda")
        moved = [torch.ones(2).to(kind), on_gpu.to(kind), torch.ones(2).to("cuda", kind)]
        moved += [torch.ones(2).to("cuda", dtype=kind), torch.ones(2).to(device=0, dtype=kind)]

        assert [x.dtype for x in moved] == [expected] * 5
        assert [x.is_cuda for x in moved] == [False, True, True, True, True]


def test_what_makes_the_host_wait_raises_or_warns_when_asked_to():
    waits = [
        lambda x: x.cpu(),
        lambda x: torch.ones(2).cuda(),
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).all()),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: torch.unique(x),
        lambda x: torch.bincount(x.long()),
        lambda x: x.masked_select(x > 0),
        lambda x: torch.equal(x, x),
        lambda x: x.repeat_interleave(x.long()),
        lambda x: x.copy_(torch.ones(3)),
    ]
    goes_on = [
        lambda x: x.to("cpu", non_blocking=True),
        lambda x: torch.ones(2).pin_memory().to("cuda", non_blocking=True),
        lambda x: x.to("cuda:1"),
        lambda x: (x * 2).sum(),
        lambda x: x.masked_fill_(x > 0, 1.0),
        lambda x: x.clone().__setitem__(x > 0, 0.0),
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: x[x.long()[:2].clamp(0, 2)],
        lambda x: x.repeat_interleave(2),
        lambda x: torch.cuda.synchronize(),
    ]
    with virtual_gpus(2):
        x = torch.ones(3, device="cuda")
        torch.cuda.set_sync_debug_mode("error")
        for number, wait in enumerate(waits):
            with pytest.raises(RuntimeError, match=r"^called a synchronizing CUDA operation$"):
                wait(x)
                raise AssertionError(number)
        for go_on in goes_on:
            go_on(x)
        torch.cuda.set_sync_debug_mode("warn")
        for wait in waits:
            with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
                wait(x)
        torch.use_deterministic_algorithms(True)
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            torch.put(x, x.long(), x)
        torch.use_deterministic_algorithms(False)
        torch.cuda.set_sync_debug_mode(0)
        assert torch.cuda.get_sync_debug_mode() == 0
        assert x.sum().item() == 3
