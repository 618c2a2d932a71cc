"""`torch.autocast("cuda")`: dtypes as CUDA's autocast makes them.

PyTorch's own state stays in charge (nesting, dtype, cache, threads): the dispatch key
`AutocastCUDA` is merely included for every operation, so that it takes part exactly while autocast
for CUDA is on. Its C++ kernels ask whether a tensor is on CUDA in C++'s eyes, which no virtual one
is; Python kernels with the same cast lists stand in for them.
"""

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from samedevice.virtual.patches import Patches
from samedevice.virtual.tags import UNSETTLED, tag_of

_KEY: Final = torch._C.DispatchKey.AutocastCUDA
_KEYS: Final = torch._C.DispatchKeySet(_KEY)
_CPU_KEYS: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_without_autocast: Final = torch._C._ExcludeDispatchKeyGuard
_Disable: Final = torch._C.DisableTorchFunction

#: the lists of ATen/autocast_mode.h
LOWER_PRECISION: Final = """
    _convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv
    linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell
    _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention
    scaled_dot_product_attention
""".split()
FLOAT32: Final = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
    pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim
    nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d
    hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
    _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
    _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
    upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
""".split()
FLOAT32_BY_DTYPE: Final = """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
    linalg_matrix_norm.str_ord sum sum.dim_IntList
""".split()
PROMOTE: Final = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""".split()
#: the overload with a dtype that a norm without one is sent on to
APPEND_DTYPE: Final = {"norm.Scalar": "ScalarOpt_dtype", "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype"}
#: on CUDA one cuDNN call, which autocast runs in half precision whatever its dtype is
RECURRENT: Final = """
    lstm.input lstm.data gru.input gru.data rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data
""".split()

_BANNED: Final = """torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""


class Casts:
    """The casts of one entered block, with the cache of cast weights."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.cache: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def eligible(self, value: Any) -> bool:
        """Autocast concerns floating-point tensors on a GPU, doubles excepted."""
        return (
            isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and value.dtype is not torch.float64
            and self.on_gpu(value)
        )

    def on_gpu(self, tensor: torch.Tensor) -> bool:
        """Where a tensor is; what C++ made inside a function is where the function's operands are."""
        tag = tag_of(tensor)
        if tag is not None and tag.device != UNSETTLED:
            return tag.device >= 0
        call = self.engine.state.call
        if call is None or any(tensor is value for value in _flat((*call[1], *call[2].values()))):
            return False
        device = self.engine.device_of_call(call)
        return device is not None and device >= 0

    def cast(self, value: Any, dtype: torch.dtype) -> Any:
        """A value of an argument in `dtype`, as `at::autocast::cached_cast`."""
        if isinstance(value, (list, tuple)):
            return [self.cast(item, dtype) for item in value]
        if not self.eligible(value) or value.dtype is dtype:
            return value
        cached = (
            value.dtype is torch.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
            and dtype is torch.get_autocast_dtype("cuda")
            and torch.is_autocast_cache_enabled()
        )
        if not cached:
            return value.to(dtype)
        found = self.cache.get(id(value))
        if found is None:
            made = value.to(dtype)
            tag = tag_of(value)
            if tag is not None and tag_of(made) is None:
                self.engine.tag(made, tag.device, tag.birth)
            found = self.cache[id(value)] = (value, made)
        return found[1]

    def cast_all(self, op: Any, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
        """Call `op` with every eligible tensor in `dtype`."""
        return op(
            *(self.cast(value, dtype) for value in args),
            **{name: self.cast(value, dtype) for name, value in kwargs.items()},
        )

    def widest(self, values: Any) -> torch.dtype:
        """The dtype that a promoting operation runs in."""
        lower = torch.get_autocast_dtype("cuda")
        found = lower
        for value in _flat(values):
            if not self.eligible(value):
                continue
            if torch.float32 in (found, value.dtype):
                found = torch.float32
            elif value.dtype is not lower:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
        return found

    # -- policies: (operation, arguments) -> result ----------------------------------------------

    def lower_precision(self, op: Any, args: Any, kwargs: Any) -> Any:
        """Run in autocast's dtype."""
        return self.cast_all(op, args, kwargs, torch.get_autocast_dtype("cuda"))

    def float32(self, op: Any, args: Any, kwargs: Any) -> Any:
        """Run in float32."""
        return self.cast_all(op, args, kwargs, torch.float32)

    def float32_by_dtype(self, op: Any, args: Any, kwargs: Any) -> Any:
        """Ask the operation for a float32 result."""
        if not self.eligible(args[0]):
            return op(*args, **kwargs)
        for position, argument in enumerate(op._schema.arguments):
            if argument.name != "dtype":
                continue
            if not argument.kwarg_only and position < len(args):
                if args[position] is None:
                    args = (*args[:position], torch.float32, *args[position + 1 :])
            elif kwargs.get("dtype") is None:
                kwargs = {**kwargs, "dtype": torch.float32}
        return op(*args, **kwargs)

    def append_dtype(self, op: Any, args: Any, kwargs: Any) -> Any:
        """Send a norm on to its overload with a dtype."""
        dtype = torch.float32 if self.eligible(args[0]) else args[0].dtype
        names = [argument.name for argument in op._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for argument in op._schema.arguments:
            if argument.name not in given:
                given[argument.name] = argument.default_value
        target = getattr(torch.ops.aten.norm, APPEND_DTYPE[f"norm.{op._overloadname}"])
        return target(*(given[name] for name in names), dtype=dtype)

    def promote(self, op: Any, args: Any, kwargs: Any) -> Any:
        """Run in the widest dtype among the operands."""
        return self.cast_all(op, args, kwargs, self.widest([*args, *kwargs.values()]))

    def recurrent(self, op: Any, args: Any, kwargs: Any) -> Any:
        """An LSTM, GRU or RNN: half precision with cuDNN, else autocast's dtype."""
        half = torch.float16 if torch._C._get_cudnn_enabled() else torch.get_autocast_dtype("cuda")
        return self.cast_all(op, args, kwargs, half)

    def banned(self, op: Any, args: Any, kwargs: Any) -> Any:
        """`binary_cross_entropy` is refused, for GPU tensors alone."""
        if any(self.eligible(value) for value in args):
            raise RuntimeError(_BANNED)
        return op(*args, **kwargs)


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def include(on: bool) -> None:
    """Let the calling thread's operations pass through `AutocastCUDA` while autocast is on."""
    torch._C._dispatch_tls_set_dispatch_key_included(_KEY, on)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    found = getattr(torch.ops.aten, packet, None)
    return None if found is None else getattr(found, overload or "default", None)


def _kernel(op: Any, policy: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _Disable(), _without_autocast(_KEYS):
            return policy(op, args, kwargs)

    return kernel


@functools.cache
def _cast_on_cpu() -> tuple[tuple[str, Any], ...]:
    """(name, operation) of everything that autocast for the CPU casts in this version of torch."""
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        if namespace == "aten" and torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCPU"):
            op = _overload(rest)
            if op is not None:
                found.append((rest, op))
    return tuple(found)


def _spare_gpu_tensors(casts: Casts) -> Any:
    """Keep `torch.autocast("cpu")` off tensors of virtual GPUs: in C++'s eyes they are on the CPU."""
    library = torch.library.Library("aten", "IMPL", "AutocastCPU")

    def kernel_of(op: Any, real: Any) -> Callable[..., Any]:
        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            with _Disable():
                tensors = [v for v in _flat((*args, *kwargs.values())) if isinstance(v, torch.Tensor)]
                if any(casts.on_gpu(tensor) for tensor in tensors):
                    with _without_autocast(_CPU_KEYS):
                        return op(*args, **kwargs)
                return real.call_boxed(keys, *args, **kwargs)

        return kernel

    for name, op in _cast_on_cpu():
        real = torch.library.get_kernel(f"aten::{name}", "AutocastCPU")
        library.impl(name, kernel_of(op, real), with_keyset=True, allow_override=True)
    return library


def install(patches: Patches, engine: Any) -> None:
    """Register the Python kernels and include the key on this thread."""
    casts = Casts(engine)
    policies = (
        (LOWER_PRECISION, casts.lower_precision),
        (FLOAT32, casts.float32),
        (FLOAT32_BY_DTYPE, casts.float32_by_dtype),
        (list(APPEND_DTYPE), casts.append_dtype),
        (PROMOTE, casts.promote),
        (RECURRENT, casts.recurrent),
        (["binary_cross_entropy"], casts.banned),
    )
    library = torch.library.Library("aten", "IMPL", "AutocastCUDA")
    with warnings.catch_warnings():
        # PyTorch points out that kernels are overridden: that is meant, and undone
        warnings.simplefilter("ignore")
        for names, policy in policies:
            for name in names:
                op = _overload(name)
                if op is not None:
                    library.impl(name, _kernel(op, policy), allow_override=True)
        patches.on_undo(library._destroy)
        patches.on_undo(_spare_gpu_tensors(casts)._destroy)

    clear = torch.clear_autocast_cache

    def clear_autocast_cache() -> None:
        casts.cache.clear()
        clear()

    patches.set(torch, "clear_autocast_cache", clear_autocast_cache)
    include(True)
    patches.on_undo(lambda: include(False))
