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
