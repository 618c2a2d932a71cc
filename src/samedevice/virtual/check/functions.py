"""Composite functions that check devices themselves, judged before they are taken apart.

Keyed by the function objects that a `TorchFunctionMode` sees; a name that the running torch does not
have is left out.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch

from samedevice.virtual.check import attention, recurrent, sparse
from samedevice.virtual.check import own_checks as own
from samedevice.virtual.check.calls import Call, Parameter, Signature, Where
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import META


@dataclass(frozen=True, slots=True)
class FunctionPlan:
    """How a function is judged.

    Attributes:
        always: judged even when all its tensors are on one device.
        variadic: the tensors come as separate arguments, or as one list.
    """

    signature: Signature
    judge: Callable[[Call], Refusal | None]
    always: bool = False
    variadic: bool = False

    def __call__(self, args: Any, kwargs: dict[str, Any], where: Where) -> Refusal | None:
        if self.variadic and not (len(args) == 1 and isinstance(args[0], (list, tuple))):
            args = (args,)
        call = Call.of(self.signature, args, kwargs, where)
        devices = call.devices()
        if len(devices) < 2 and not self.always:
            return None
        if META in devices and self.judge is not attention.judge:
            return None
        return self.judge(call)


def _signature(name: str, parameters: str) -> Signature:
    """ "input other * out": tensors by name, `[x]` a list, `-x` no tensor, those after `*` keywords."""
    result, keyword = [], False
    for word in parameters.split():
        if word == "*":
            keyword = True
            continue
        kind = "tensor"
        if word.startswith("["):
            kind, word = "list", word.strip("[]")
        elif word.startswith("-"):
            kind, word = "other", word[1:]
        result.append(Parameter(word, kind, word == "out", keyword))
    return Signature(name, name, tuple(result))


def _resolve(path: str) -> Any:
    try:
        return functools.reduce(getattr, path.split(".")[1:], torch)
    except AttributeError:
        return None


#: (paths below torch, parameters, judge): the first path's last name is the function's name
_TABLE: Final[tuple[tuple[str, str, Callable[[Call], Refusal | None]], ...]] = (
    ("torch.inner torch.Tensor.inner", "self other * out", own.judge_inner),
    ("torch.take_along_dim torch.Tensor.take_along_dim", "self indices -dim * out", own.judge_take_along_dim),
    ("torch.quantile torch.Tensor.quantile", "self q -dim -keepdim * -interpolation out", own.judge_quantile),
    (
        "torch.nanquantile torch.Tensor.nanquantile",
        "self q -dim -keepdim * -interpolation out",
        own.judge_quantile,
    ),
    (
        "torch.stft torch.functional.stft torch.Tensor.stft torch._VF.stft",
        "self -n_fft -hop_length -win_length window",
        own.judge_window,
    ),
    (
        "torch.istft torch.functional.istft torch.Tensor.istft torch._VF.istft",
        "self -n_fft -hop_length -win_length window",
        own.judge_window,
    ),
    ("torch.gradient", "self * [spacing]", own.judge_gradient),
    (
        "torch.linalg.multi_dot torch._VF.chain_matmul",
        "[tensors] * out",
        own.judge_multi_dot,
    ),
    (
        "torch.linalg.matrix_rank",
        "self tol -hermitian * atol rtol out",
        own.judge_matrix_rank,
    ),
    ("torch.linalg.norm", "self -ord -dim -keepdim * out -dtype", own.judge_result_device),
    ("torch.linalg.matrix_norm", "self -ord -dim -keepdim * out -dtype", own.judge_result_device),
    ("torch.linalg.vecdot", "self y * -dim out", own.judge_result_device),
    (
        "torch.linalg.matrix_power torch.matrix_power torch.Tensor.matrix_power",
        "self -n * out",
        own.judge_result_device,
    ),
    (
        "torch.tensordot torch.functional.tensordot torch._VF.tensordot",
        "self other -dims -dims_b * out",
        own.judge_tensordot,
    ),
    ("torch._C._nested.nested_tensor", "[tensors]", own.judge_nested),
    ("torch.special.ndtr", "self * out", own.judge_ndtr),
    ("torch.diff torch.Tensor.diff", "self -n -dim prepend append * out", own.judge_diff),
    (
        "torch.cosine_similarity torch.nn.functional.cosine_similarity",
        "x1 x2 -dim -eps",
        own.judge_cosine_similarity,
    ),
    (
        "torch.rms_norm torch.nn.functional.rms_norm",
        "input -normalized_shape weight -eps",
        own.judge_rms_norm,
    ),
    ("torch.sparse.mm torch._sparse_mm torch._C._sparse._sparse_mm", "mat1 mat2", sparse.judge_mm),
    ("torch._weight_norm", "v g -dim", own.judge_weight_norm),
    (
        "torch.native_batch_norm",
        "input weight bias running_mean running_var -training -momentum -eps",
        own.judge_native_batch_norm,
    ),
    (
        "torch.nn.functional.scaled_dot_product_attention torch._C._nn.scaled_dot_product_attention",
        "query key value attn_mask -dropout_p -is_causal * -scale -enable_gqa",
        attention.judge,
    ),
    ("torch.lstm_cell torch._VF.lstm_cell", "input [hx] w_ih w_hh b_ih b_hh", recurrent.judge_fused_cell),
    ("torch.gru_cell torch._VF.gru_cell", "input hx w_ih w_hh b_ih b_hh", recurrent.judge_fused_cell),
    ("torch.bilinear torch.nn.functional.bilinear", "input1 input2 weight bias", own.judge_bilinear),
)

#: judged whether or not the devices agree: an argument that must not be on a GPU, or a `device=`
_ALWAYS_TABLE: Final[tuple[tuple[str, str, Callable[[Call], Refusal | None]], ...]] = (
    (
        "torch.tensor_split torch.Tensor.tensor_split",
        "self tensor_indices_or_sections -dim",
        own.judge_tensor_split,
    ),
    ("torch.Tensor.pin_memory", "self", own.judge_pin_memory),
    (
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
        "query key value -dropout_p -is_causal * attn_mask -scale",
        attention.judge_called_by_name,
    ),
)

_FACTORIES: Final = [
    "zeros",
    "ones",
    "empty",
    "full",
    "arange",
    "range",
    "linspace",
    "logspace",
    "eye",
    "rand",
    "randn",
    "randint",
    "randperm",
    "normal",
]


def _judge_recurrent(name: str) -> Callable[[Any, dict[str, Any], Where], Refusal | None]:
    """The packed and the padded form share a name; what follows the hidden state tells them apart."""
    padded = _signature(name, "input [hx] [params] -has_biases")
    packed = _signature(name, "input batch_sizes [hx] [params] -has_biases")
    # only the cells of these two have a kernel of their own on a GPU
    fused = name in ("lstm", "gru")

    def judge(args: Any, kwargs: dict[str, Any], where: Where) -> Refusal | None:
        if kwargs or len(args) < 4:
            return None
        is_packed = isinstance(args[3], (list, tuple))
        hidden = 2 if is_packed else 1
        if isinstance(args[hidden], torch.Tensor):
            args = (*args[:hidden], [args[hidden]], *args[hidden + 1 :])
        signature = packed if is_packed else padded
        call = Call.of(signature, args[: len(signature.parameters)], {}, where)
        devices = call.devices()
        if META in devices or len(devices) < 2:
            batch_sizes = call.one("batch_sizes")
            if batch_sizes is None or batch_sizes.device < 0:
                return None
        call.values.update(packed=is_packed, fused=fused)
        return recurrent.judge_network(call)

    return judge


def _build() -> dict[Any, Any]:
    judges: dict[Any, Any] = {}

    def add(paths: Iterable[str], judge: Any) -> None:
        for path in paths:
            func = _resolve(path)
            if func is not None:
                judges[func] = judge

    for rows, always in ((_TABLE, False), (_ALWAYS_TABLE, True)):
        for text, parameters, judge in rows:
            paths = text.split()
            name = paths[0].removeprefix("torch.")
            add(paths, FunctionPlan(_signature(name, parameters), judge, always))
    meshgrid = FunctionPlan(_signature("meshgrid", "[tensors]"), own.judge_meshgrid, variadic=True)
    add(("torch.meshgrid", "torch.functional.meshgrid", "torch._VF.meshgrid"), meshgrid)
    add(("torch.cartesian_prod", "torch.functional.cartesian_prod", "torch._VF.cartesian_prod"), meshgrid)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        add((f"torch.{name}", f"torch._VF.{name}"), _judge_recurrent(name))
    for name in _FACTORIES:
        add((f"torch.{name}",), own.judge_factory)
    return judges


_judges: Final = _build()

ALWAYS: Final = frozenset(func for func, judge in _judges.items() if getattr(judge, "always", False))


def judge_of(func: Any) -> Callable[[Any, dict[str, Any], Where], Refusal | None] | None:
    try:
        return _judges.get(func)
    except TypeError:
        return None
