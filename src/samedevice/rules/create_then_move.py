"""The rule `create-then-move`."""

import ast

from samedevice.model.diagnostic import Confidence, Evidence, Severity
from samedevice.model.fix import Applicability, Edit, Fix
from samedevice.model.traffic import Traffic
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.traffic import saving, shown_size, times
from samedevice.source.calls import SourceCalls

#: factories that take `device=`
_FACTORIES = (
    "zeros", "ones", "full", "empty", "eye", "arange", "linspace", "logspace", "rand", "randn", "randint", "randperm",
    "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "randint_like",
    "tril_indices", "triu_indices", "hann_window", "hamming_window", "bartlett_window", "blackman_window",
)  # fmt: skip


class CreateThenMove(Rule):
    """Checks for tensors that are made on the CPU only to be moved to the GPU, in every step.

    ## Why is this bad?
    `torch.zeros(n).to(device)` fills memory of the CPU and sends it over PCIe, where
    `torch.zeros(n, device=device)` fills the memory of the GPU and sends nothing.

    ## Example
    ```python
    import torch

    device = "cuda"
    model = torch.nn.RNN(8, 16).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        hidden = torch.zeros(1, 4, 16).to(device)
        output, _ = model(torch.randn(5, 4, 8, device=device), hidden)
        output.sum().backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    device = "cuda"
    model = torch.nn.RNN(8, 16).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        hidden = torch.zeros(1, 4, 16, device=device)
        output, _ = model(torch.randn(5, 4, 8, device=device), hidden)
        output.sum().backward()
        optimizer.step()
    ```

    ## Fix safety
    The fix is unsafe: random numbers of the GPU are others than those of the CPU. For factories without
    randomness nothing changes.
    """

    name = "create-then-move"
    group = "cost"
    severity = Severity.WARNING
    category = "performance"
    specificity = 60
    lesson = "Make a tensor where it is used: every factory takes `device=`."
    engines = ("profile",)

    def recognise_traffic(self, traffic: Traffic) -> Recognition | None:
        """Made by factories in the same step and moved by the user's own line."""
        source = traffic.source
        if traffic.kind != "transfer" or traffic.what != "h2d" or not traffic.direct or not traffic.in_step:
            return None
        if source is None or not source.fresh or traffic.of_module:
            return None
        evidence = [
            Evidence(traffic.location, f"moved to the GPU here, {shown_size(traffic.bytes_per_step)} a step")
        ]
        if source.location is not None:
            evidence.insert(0, Evidence(source.location, f"made on the CPU here by `{source.function}`"))
        return Recognition(
            f"`{traffic.expression}` moves to the GPU what was made on the CPU in the same step, {times(traffic)}",
            traffic.location,
            Confidence.CERTAIN,
            evidence=tuple(evidence),
            help="make it on the GPU: give the factory `device=`",
            fix=_device_argument(traffic),
            notes=(saving(traffic),),
        )


def _device_argument(traffic: Traffic) -> Fix | None:
    """`torch.zeros(n).to(device)` becomes `torch.zeros(n, device=device)`."""
    calls = SourceCalls(traffic.location.path, traffic.text)
    outer = calls.at(traffic.location)
    if not isinstance(outer, ast.Call) or not isinstance(outer.func, ast.Attribute):
        return None
    inner = outer.func.value
    if not isinstance(inner, ast.Call) or calls.segment(inner.func).rpartition(".")[2] not in _FACTORIES:
        return None
    device = _device_of(outer, calls)
    if device is None or any(keyword.arg == "device" for keyword in inner.keywords):
        return None
    added = calls.with_keyword(inner, "device", device)
    if added is None:
        return None
    edits: tuple[Edit, ...] = (added, calls.without_method(outer, inner))
    return Fix("Make it on the device", Applicability.UNSAFE, edits)


def _device_of(call: ast.Call, calls: SourceCalls) -> str | None:
    """The device that `.to(device)` or `.cuda()` names, as source; None when more is asked for."""
    assert isinstance(call.func, ast.Attribute)
    given = [*call.args, *(k.value for k in call.keywords if k.arg == "device")]
    others = [k.arg for k in call.keywords if k.arg not in ("device", "non_blocking")]
    if others or call.func.attr not in ("to", "cuda") or len(given) > 1:
        return None
    if not given:
        return '"cuda"' if call.func.attr == "cuda" else None
    text = calls.segment(given[0])
    return (
        None
        if "dtype" in text or text.startswith("torch.float") or isinstance(given[0], ast.Starred)
        else text
    )
