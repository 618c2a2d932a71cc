"""The rule `dtype-mismatch`."""

from samedevice.model.diagnostic import Confidence
from samedevice.model.scene import Kind, Scene
from samedevice.rules.questions import story
from samedevice.rules.rule import Recognition, Rule


class DtypeMismatch(Rule):
    """Checks for operands of different element types where PyTorch does not convert.

    ## Why is this bad?
    Element-wise operations convert to the wider type, but matrix products, convolutions, norms and attention do
    not: a half-precision layer refuses float32 data, and a layer norm left in float32 refuses half-precision
    data on a GPU, though not on the CPU. The devices are fine. The usual strangers are float64 from NumPy, a
    model in half precision without autocast, and tensors made inside a module that was converted.

    ## Example
    ```python
    import torch

    model = torch.nn.Linear(4, 2).cuda().bfloat16()
    x = torch.rand(3, 4, device="cuda")
    print(model(x).sum().item())
    ```

    Use instead:
    ```python
    import torch

    model = torch.nn.Linear(4, 2).cuda().bfloat16()
    x = torch.rand(3, 4, device="cuda")
    print(model(x.to(model.weight.dtype)).sum().item())
    ```

    ## Fix safety
    There is no automatic fix: which type is right is a matter of the program's precision.
    """

    name = "dtype-mismatch"
    group = "dtype kin"
    engines = ("check",)
    specificity = 88
    lesson = "Matrix products, convolutions and norms want one element type: convert where the precision changes, or use autocast."

    def recognise(self, scene: Scene) -> Recognition | None:
        """PyTorch's own refusal of element types."""
        if scene.kind is not Kind.DTYPE:
            return None
        if scene.message.startswith("Attempting to unscale"):
            return Recognition(
                message="GradScaler is given gradients of float16: the parameters are in half precision themselves",
                location=scene.raised,
                confidence=Confidence.CERTAIN,
                evidence=story(scene),
                help="Leave the parameters in float32 and let `autocast` choose, or train without a scaler",
            )
        told = scene.extra.get("dtypes")
        found = (
            told if isinstance(told, tuple) and told else tuple(operand.dtype for operand in scene.operands)
        )
        dtypes = list(dict.fromkeys(str(dtype) for dtype in found if dtype))
        if len(dtypes) < 2:
            return None
        types = f"{', '.join(dtypes[:-1])} and {dtypes[-1]}"
        operands = ", ".join(f"`{operand.shown}`" for operand in scene.operands if operand.expression)
        where = "here, where none is converted"
        if scene.operator != "<module>":
            where = f"in `{scene.operator}`, which converts none of them"
        return Recognition(
            message=f"{operands or 'operands'} of {types} meet {where}",
            location=scene.raised,
            confidence=Confidence.CERTAIN,
            evidence=story(scene),
            help="Convert at the border, following a tensor that is right: `x.to(layer.weight.dtype)`",
        )
