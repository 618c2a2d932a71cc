"""`torch.use_deterministic_algorithms`: the operations of which CUDA has no deterministic kernel refuse."""

import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

from samedevice.virtual.patches import Patches

#: operation -> what its kernel calls itself
KERNELS: Final = {
    "avg_pool3d_backward": "avg_pool3d_backward_cuda",
    "_adaptive_avg_pool2d_backward": "adaptive_avg_pool2d_backward_cuda",
    "_adaptive_avg_pool3d_backward": "adaptive_avg_pool3d_backward_cuda",
    "adaptive_max_pool2d_backward": "adaptive_max_pool2d_backward_cuda",
    "max_pool3d_with_indices_backward": "max_pool3d_with_indices_backward_cuda",
    "fractional_max_pool2d_backward": "fractional_max_pool2d_backward_cuda",
    "fractional_max_pool3d_backward": "fractional_max_pool3d_backward_cuda",
    "upsample_linear1d_backward": "upsample_linear1d_backward_out_cuda",
    "upsample_bilinear2d_backward": "upsample_bilinear2d_backward_out_cuda",
    "upsample_bicubic2d_backward": "upsample_bicubic2d_backward_out_cuda",
    "upsample_trilinear3d_backward": "upsample_trilinear3d_backward_out_cuda",
    "_upsample_bilinear2d_aa_backward": "upsample_bilinear2d_aa_backward_out_cuda",
    "_upsample_bicubic2d_aa_backward": "upsample_bicubic2d_aa_backward_out_cuda",
    "reflection_pad1d_backward": "reflection_pad1d_backward_out_cuda",
    "reflection_pad3d_backward": "reflection_pad3d_backward_out_cuda",
    "replication_pad1d_backward": "replication_pad1d_backward_cuda",
    "replication_pad2d_backward": "replication_pad2d_backward_cuda",
    "replication_pad3d_backward": "replication_pad3d_backward_cuda",
    "nll_loss2d_forward": "nll_loss2d_forward_out_cuda_template",
    "_ctc_loss_backward": "ctc_loss_backward_gpu",
    "_embedding_bag_backward": "embedding_bag_backward_cuda_max",
    "_embedding_bag_dense_backward": "embedding_bag_backward_cuda_max",
    "put": "put_",
    "put_": "put_",
    "histc": "_histc_cuda with floating point input",
    "bincount": "_bincount_cuda",
    "median": "median CUDA with indices output",
    "nanmedian": "median CUDA with indices output",
    "grid_sampler_2d_backward": "grid_sampler_2d_backward_cuda",
    "grid_sampler_3d_backward": "grid_sampler_3d_backward_cuda",
    "scatter": "scatter_reduce_cuda_kernel",
    "scatter_": "scatter_reduce_cuda_kernel",
    "scatter_reduce": "scatter_reduce_cuda_prod_",
    "scatter_reduce_": "scatter_reduce_cuda_prod_",
    "index_reduce": "index_reduce_cuda",
    "index_reduce_": "index_reduce_cuda",
}

_MODE_MAX: Final = 2
_REDUCTION_NONE: Final = 0


def _with(index: int, name: str, value: Any) -> Callable[[Any, Any, Any], bool]:
    """Whether an argument, by position or by name, has the value."""

    def has(func: Any, args: Any, kwargs: Any) -> bool:
        return (args[index] if len(args) > index else kwargs.get(name)) == value

    return has


def _multiplies_tensors(func: Any, args: Any, kwargs: Any) -> bool:
    return func._schema.overload_name in ("reduce", "reduce_out") and "multiply" in (
        *args[4:],
        kwargs.get("reduce"),
    )


#: those that refuse for some arguments only
CONDITIONS: Final[dict[str, Callable[[Any, Any, Any], bool]]] = {
    "_embedding_bag_backward": _with(8, "mode", _MODE_MAX),
    "_embedding_bag_dense_backward": _with(7, "mode", _MODE_MAX),
    "histc": lambda func, args, kwargs: args[0].is_floating_point(),
    "bincount": lambda func, args, kwargs: (args[1] if len(args) > 1 else kwargs.get("weights")) is not None,
    "median": lambda func, args, kwargs: (
        func._schema.overload_name != "default" and len(func._schema.returns) > 1
    ),
    "nanmedian": lambda func, args, kwargs: len(func._schema.returns) > 1,
    "nll_loss2d_forward": lambda func, args, kwargs: args[3] != _REDUCTION_NONE,
    "scatter": _multiplies_tensors,
    "scatter_": _multiplies_tensors,
    "scatter_reduce": _with(4, "reduce", "prod"),
    "scatter_reduce_": _with(4, "reduce", "prod"),
}


def alert(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse, or warn of, an operation on a GPU that is not deterministic there.

    Raises:
        RuntimeError: PyTorch's own.
    """
    name = func._schema.name.partition("::")[2]
    kernel = KERNELS.get(name)
    if kernel is None or not CONDITIONS.get(name, lambda *_: True)(func, args, kwargs):
        return
    setting = "True, warn_only=True" if torch._C._get_deterministic_algorithms_warn_only() else "True"
    text = f"{kernel} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms({setting})'. "
    issues = (
        "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
        "support for this operation."
    )
    if torch._C._get_deterministic_algorithms_warn_only():
        warnings.warn(f"{text}You can {issues}", UserWarning, stacklevel=2)
        return
    raise RuntimeError(
        f"{text}You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, "
        f"if that's acceptable for your application. You can also {issues}"
    )


def install(patches: Patches, engine: Any) -> None:
    """Look at every operation while deterministic algorithms are asked for."""
    real = torch._C._set_deterministic_algorithms

    def set_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
        real(mode, warn_only=warn_only)
        engine.watch("determinism", alert if mode else None)

    patches.set(torch._C, "_set_deterministic_algorithms", set_deterministic_algorithms)
    engine.watch("determinism", alert if torch.are_deterministic_algorithms_enabled() else None)
