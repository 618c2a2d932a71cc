"""The operators that PyTorch's messages name, in the words of those who called them."""

from dataclasses import dataclass, field

from samedevice.torch_facts.messages.family import T


@dataclass(frozen=True, slots=True)
class Method:
    """An operator as a message names it.

    Attributes:
        called: what the user wrote.
        roles: what each argument is.
        first: the argument that the check compares the others with; it is never named itself.
        causes: rules that are usual here when the *named* argument is the one out of place.
    """

    called: T
    roles: dict[str, T] = field(default_factory=dict)
    first: T | None = None
    causes: tuple[str, ...] = ()


_INPUT = T("the input", "die Eingabe")
_WEIGHT = T("the weight", "das Gewicht")
_BIAS = T("the bias", "der Bias")
_LEFT = T("the left matrix", "die linke Matrix")
_RIGHT = T("the right matrix", "die rechte Matrix")
_TABLE = T("the tensor that is indexed", "der Tensor, der indiziert wird")
_INDEX = T("the index", "der Index")
_MODULE_CAUSES = (
    "module-not-moved",
    "module-in-container",
    "module-added-after-move",
    "module-built-in-forward",
)
_INPUT_CAUSES = ("batch-not-moved", "discarded-move", "factory-without-device", "nested-tensor-missed")

#: looked up by the longest key that the wrapper's name contains
METHODS: dict[str, Method] = {
    "addmm": Method(
        T("`nn.Linear` (or `torch.addmm`)", "`nn.Linear` (oder `torch.addmm`)"),
        {
            "mat1": T("the layer's input", "die Eingabe der Schicht"),
            "mat2": T("the layer's weight", "das Gewicht der Schicht"),
        },
        T("the layer's bias", "der Bias der Schicht"),
        _INPUT_CAUSES,
    ),
    "addmv": Method(
        T("a matrix times a vector (`@`, `mv`, `nn.Linear` on one row)", "Matrix mal Vektor (`@`, `mv`, `nn.Linear` auf einer Zeile)"),
        {"mat": T("the matrix", "die Matrix"), "vec": T("the vector", "der Vektor")},
        T("the vector, or the bias", "der Vektor oder der Bias"),
    ),
    "mm": Method(
        T("a matrix product (`@`, `nn.Linear` without bias)", "ein Matrixprodukt (`@`, `nn.Linear` ohne Bias)"),
        {"mat2": T("the right matrix (in a layer, its weight)", "die rechte Matrix (in einer Schicht das Gewicht)")},
        T("the left matrix (in a layer, its input)", "die linke Matrix (in einer Schicht die Eingabe)"),
    ),
    "bmm": Method(
        T("a batched matrix product (`@`, `bmm`, `einsum`, attention)", "ein Matrixprodukt über Batches (`@`, `bmm`, `einsum`, Attention)"),
        {"mat2": _RIGHT},
        _LEFT,
    ),
    "baddbmm": Method(
        T("attention with a mask (`nn.MultiheadAttention`, `baddbmm`)", "Attention mit Maske (`nn.MultiheadAttention`, `baddbmm`)"),
        {"batch1": T("the queries", "die Queries"), "batch2": T("the keys", "die Keys")},
        T("the attention mask", "die Attention-Maske"),
        ("factory-without-device", "unregistered-tensor"),
    ),
    "dot": Method(T("a product of two vectors", "ein Produkt zweier Vektoren"), {"tensor": _RIGHT}, T("the left vector", "der linke Vektor")),
    "index_select": Method(
        T("`nn.Embedding` (or `index_select`, `repeat_interleave`)", "`nn.Embedding` (oder `index_select`, `repeat_interleave`)"),
        {"index": T("the ids that are looked up", "die Ids, die nachgeschlagen werden")},
        T("the embedding's weight", "das Gewicht des Embeddings"),
        ("batch-not-moved", "factory-without-device", "nested-tensor-missed", "discarded-move"),
    ),
    "embedding_bag": Method(T("`nn.EmbeddingBag`", "`nn.EmbeddingBag`"), {"indices": _INDEX, "offsets": T("the offsets", "die Offsets")}, _WEIGHT, _INPUT_CAUSES),
    "embedding": Method(T("`nn.Embedding`", "`nn.Embedding`"), {"indices": _INDEX, "index": _INDEX}, _WEIGHT, _INPUT_CAUSES),
    "nll_loss": Method(
        T("`cross_entropy` or `nll_loss`", "`cross_entropy` oder `nll_loss`"),
        {"target": T("the labels", "die Labels"), "weight": T("the class weights", "die Klassengewichte")},
        T("the predictions", "die Vorhersagen"),
        ("target-not-moved", "loss-weight-not-moved"),
    ),
    "batch_norm": Method(
        T("`nn.BatchNorm` or `nn.InstanceNorm`", "`nn.BatchNorm` oder `nn.InstanceNorm`"),
        {"weight": _WEIGHT, "bias": _BIAS, "running_mean": T("the running mean", "der laufende Mittelwert"), "running_var": T("the running variance", "die laufende Varianz")},
        _INPUT,
        ("module-built-in-forward", *_MODULE_CAUSES),
    ),
    "layer_norm": Method(T("`nn.LayerNorm`", "`nn.LayerNorm`"), {"weight": _WEIGHT, "bias": _BIAS}, _INPUT, _MODULE_CAUSES),
    "group_norm": Method(T("`nn.GroupNorm`", "`nn.GroupNorm`"), {"weight": _WEIGHT, "bias": _BIAS}, _INPUT, _MODULE_CAUSES),
    "rms_norm": Method(T("`nn.RMSNorm`", "`nn.RMSNorm`"), {"weight": _WEIGHT}, _INPUT, _MODULE_CAUSES),
    "prelu": Method(T("`nn.PReLU`", "`nn.PReLU`"), {"weight": _WEIGHT}, _INPUT, _MODULE_CAUSES),
    "conv": Method(T("a convolution", "eine Faltung"), {"weight": _WEIGHT, "bias": _BIAS}, _INPUT, _MODULE_CAUSES),
    "cat": Method(
        T("`torch.cat` or `torch.stack`", "`torch.cat` oder `torch.stack`"),
        {"tensors": T("one tensor of the list", "ein Tensor der Liste")},
        T("the first tensor of the list", "der erste Tensor der Liste"),
        ("factory-without-device", "batch-not-moved", "accumulator-on-cpu", "carried-state"),
    ),
    "gather": Method(T("`gather`", "`gather`"), {"index": _INDEX}, _TABLE, ("target-not-moved", "batch-not-moved", "factory-without-device")),
    "scatter": Method(
        T("`scatter` or `scatter_add`", "`scatter` oder `scatter_add`"),
        {"index": _INDEX, "src": T("the values", "die Werte")},
        T("the tensor that is written to", "der Tensor, in den geschrieben wird"),
        ("factory-without-device", "accumulator-on-cpu", "target-not-moved"),
    ),
    "index_add": Method(
        T("`index_add`", "`index_add`"),
        {"index": _INDEX, "source": T("the values", "die Werte")},
        T("the tensor that is written to", "der Tensor, in den geschrieben wird"),
        ("factory-without-device", "accumulator-on-cpu"),
    ),
    "index_copy": Method(
        T("`index_copy_`", "`index_copy_`"),
        {"index": _INDEX, "source": T("the values", "die Werte")},
        T("the tensor that is written to (a cache?)", "der Tensor, in den geschrieben wird (ein Cache?)"),
        ("factory-without-device", "carried-state"),
    ),
    "masked_select": Method(T("`masked_select`", "`masked_select`"), {"mask": T("the mask", "die Maske")}, _TABLE, ("target-not-moved", "factory-without-device")),
    "masked_scatter": Method(T("`masked_scatter`", "`masked_scatter`"), {"mask": T("the mask", "die Maske"), "source": T("the values", "die Werte")}, _TABLE, ("target-not-moved", "factory-without-device")),
    "clamp": Method(
        T("`clamp` with tensors as bounds (or `cosine_similarity`)", "`clamp` mit Tensoren als Schranken (oder `cosine_similarity`)"),
        {"min": T("the lower bound", "die untere Schranke"), "max": T("the upper bound", "die obere Schranke")},
        _INPUT,
        ("factory-without-device", "unregistered-tensor"),
    ),
    "fused_adam": Method(
        T("the fused Adam of `optimizer.step()`", "das fused-Adam von `optimizer.step()`"),
        {"exp_avgs": T("the optimizer's state", "der Zustand des Optimierers"), "grads": T("the gradients", "die Gradienten")},
        T("the parameters", "die Parameter"),
        ("optimizer-state-left-behind",),
    ),
    "fused_sgd": Method(
        T("the fused SGD of `optimizer.step()`", "das fused-SGD von `optimizer.step()`"),
        {"momentum_buffer_list": T("the optimizer's momentum", "das Momentum des Optimierers")},
        T("the parameters", "die Parameter"),
        ("optimizer-state-left-behind",),
    ),
    "amp_foreach": Method(
        T("`GradScaler.unscale_` or `GradScaler.step`", "`GradScaler.unscale_` oder `GradScaler.step`"),
        {"found_inf": T("the scaler's state", "der Zustand des Scalers")},
        T("the gradients", "die Gradienten"),
        ("cross-gpu-operands", "cpu-gradient"),
    ),
    "scaled_dot_product": Method(
        T("`scaled_dot_product_attention`", "`scaled_dot_product_attention`"),
        {"attn_bias": T("the attention mask", "die Attention-Maske")},
        T("the queries", "die Queries"),
        ("factory-without-device", "unregistered-tensor"),
    ),
    "transformer_encoder_layer": Method(
        T("`nn.TransformerEncoderLayer` in evaluation", "`nn.TransformerEncoderLayer` in der Auswertung"),
        {"mask": T("the attention mask", "die Attention-Maske")},
        _INPUT,
        ("factory-without-device", "module-not-moved"),
    ),
    "grid_sampler": Method(T("`grid_sample`", "`grid_sample`"), {"grid": T("the grid", "das Gitter")}, _INPUT, ("factory-without-device", "unregistered-tensor", "cached-on-first-device")),
    "max_unpool": Method(T("`nn.MaxUnpool`", "`nn.MaxUnpool`"), {"indices": _INDEX}, _INPUT),
    "bincount": Method(T("`bincount`", "`bincount`"), {"weights": T("the weights", "die Gewichte")}, _INPUT, ("factory-without-device",)),
    "isin": Method(T("`torch.isin`", "`torch.isin`"), {"test_elements": T("the set that is searched", "die Menge, in der gesucht wird")}, _INPUT, ("factory-without-device",)),
    "cdist": Method(T("`torch.cdist`", "`torch.cdist`"), {"x2": T("the second set of points", "die zweite Punktmenge")}, T("the first set of points", "die erste Punktmenge"), ("factory-without-device", "unregistered-tensor")),
    "bucketize": Method(T("`torch.bucketize`", "`torch.bucketize`"), {"boundaries": T("the boundaries", "die Grenzen")}, _INPUT, ("unregistered-tensor", "factory-without-device")),
    "searchsorted": Method(T("`torch.searchsorted`", "`torch.searchsorted`"), {"self": T("the values", "die Werte")}, T("the sorted sequence", "die sortierte Folge"), ("unregistered-tensor", "factory-without-device")),
    "equal": Method(T("`torch.equal`", "`torch.equal`"), {"other": T("the second tensor", "der zweite Tensor")}, T("the first tensor", "der erste Tensor"), ("load-without-map-location", "copy-left-behind")),
    "linalg": Method(T("a function of `torch.linalg`", "eine Funktion aus `torch.linalg`"), {"B": _RIGHT, "b": _RIGHT}, _LEFT, ("factory-without-device", "unregistered-tensor")),
    "sparse_coo_tensor": Method(T("`torch.sparse_coo_tensor`", "`torch.sparse_coo_tensor`"), {"values": T("the values", "die Werte")}, T("the indices", "die Indizes"), ("factory-without-device",)),
    "huber_loss": Method(T("`huber_loss`", "`huber_loss`"), {"target": T("the labels", "die Labels")}, T("the predictions", "die Vorhersagen"), ("target-not-moved",)),
    "margin_loss": Method(T("a margin loss", "ein Margin-Loss"), {"target": T("the labels", "die Labels")}, T("the predictions", "die Vorhersagen"), ("target-not-moved",)),
    "foreach": Method(T("`optimizer.step()` (a foreach operation)", "`optimizer.step()` (eine foreach-Operation)"), {}, None, ("optimizer-state-left-behind",)),
}  # fmt: skip


def find_method(name: str) -> Method | None:
    """The operator behind a wrapper's or function's name ("wrapper_CUDA_addmm", "_th_bmm")."""
    bare = name.strip("_").lower()
    best = max((key for key in METHODS if key in bare), key=len, default=None)
    return METHODS[best] if best else None
