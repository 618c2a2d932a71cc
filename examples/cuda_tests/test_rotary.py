"""The library's CUDA tests: skipped on every free runner, for want of a GPU.

`pytest --virtual-gpus 1` runs them.
"""

import pytest
import torch
from rotary import Rotary

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_lengths_are_kept_on_the_cpu():
    layer, x = Rotary(8), torch.randn(2, 5, 8)

    torch.testing.assert_close(layer(x).norm(), x.norm())


@needs_cuda
def test_the_result_is_where_the_input_is():
    layer = Rotary(8).cuda()

    assert layer(torch.randn(2, 5, 8, device="cuda")).is_cuda


@needs_cuda
def test_a_layer_that_was_used_can_move():
    layer = Rotary(8)
    layer(torch.randn(2, 5, 8))
    layer.cuda()

    assert layer(torch.randn(2, 5, 8, device="cuda")).is_cuda
