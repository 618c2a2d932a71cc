"""`SyncBatchNorm`'s kernels, which PyTorch has for GPUs only, in terms of operations that a CPU has."""

from typing import Any, Final

import torch
from torch import Tensor


def _channels(value: Any, like: Tensor) -> Any:
    """A tensor with one number per channel, shaped to meet the input."""
    return None if value is None else value.view(1, -1, *[1] * (like.dim() - 2))


def _others(tensor: Tensor) -> list[int]:
    return [d for d in range(tensor.dim()) if d != 1]


def stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and inverse standard deviation of each channel."""
    values = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    variance, mean = torch.var_mean(values, _others(input), correction=0)
    return mean, torch.rsqrt(variance + eps)


def gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """The same of all ranks' data, from each rank's; updates the running averages."""
    number = counts.to(mean.dtype).view(-1, 1)
    total = number.sum()
    joint = (mean * number).sum(0) / total
    squares = (number * (invstd.pow(-2) - eps + (mean - joint).square())).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(momentum * joint)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(momentum * (squares / (total - 1)))
    return joint, torch.rsqrt(squares / total + eps)


def elemt(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    eps: float,
) -> Tensor:
    """The normalised input."""
    result = (input - _channels(mean, input)) * _channels(invstd, input)
    if weight is not None:
        result = result * _channels(weight, input)
    if bias is not None:
        result = result + _channels(bias, input)
    return result.to(input.dtype)


def backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
    """Sums over this rank's part of the gradient."""
    gradient = grad_out.to(mean.dtype)
    total = gradient.sum(_others(input))
    along = (gradient * (input - _channels(mean, input))).sum(_others(input))
    own = weight.dtype if weight is not None else mean.dtype
    return (
        total if input_g else None,
        along if input_g else None,
        (along * invstd).to(own) if weight_g else None,
        total.to(own) if bias_g else None,
    )


def backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The input's gradient, from the sums of all ranks."""
    total = count.sum().to(mean.dtype)
    centred = input - _channels(mean, input)
    slope = _channels(invstd.square() * sum_dy_xmu / total, input)
    result = (grad_out - _channels(sum_dy / total, input) - centred * slope) * _channels(invstd, input)
    if weight is not None:
        result = result * _channels(weight, input)
    return result.to(input.dtype)


KERNELS: Final = {
    "batch_norm_stats": stats,
    "batch_norm_gather_stats_with_counts": gather_stats_with_counts,
    "batch_norm_elemt": elemt,
    "batch_norm_backward_reduce": backward_reduce,
    "batch_norm_backward_elemt": backward_elemt,
}
