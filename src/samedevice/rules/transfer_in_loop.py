"""The rule `transfer-in-loop`."""

from samedevice.model.diagnostic import Confidence, Evidence, Severity
from samedevice.model.traffic import Traffic
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.traffic import saving, shown_size, times

_ROUTE = {"h2d": "to the GPU", "d2h": "to the CPU", "d2d": "to another GPU"}


class TransferInLoop(Rule):
    """Checks for data that crosses the bus in every step although it need not: the same bytes, or there and back.

    ## Why is this bad?
    A copy between CPU and GPU memory runs over PCIe, at a hundredth of the speed of GPU memory, and a blocking
    one makes the host wait for all work that was queued before it. A constant (a mask, class weights, a table)
    needs that once. Data that leaves the GPU for one operation and comes back pays twice.

    ## Example
    ```python
    import torch

    device = "cuda"
    model = torch.nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights = torch.rand(4)
    for step in range(10):
        x = torch.randn(16, 8, device=device)
        loss = (model(x) * weights.to(device)).sum()
        loss.backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    device = "cuda"
    model = torch.nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights = torch.rand(4).to(device)
    for step in range(10):
        x = torch.randn(16, 8, device=device)
        loss = (model(x) * weights).sum()
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    There is no automatic fix: the move belongs in front of the loop, or the tensor is a buffer of the module.
    """

    name = "transfer-in-loop"
    group = "cost"
    severity = Severity.WARNING
    category = "performance"
    specificity = 50
    lesson = "A constant crosses the bus once; inside the loop only what is new should."
    engines = ("profile",)

    def recognise_traffic(self, traffic: Traffic) -> Recognition | None:
        """The same bytes in most steps, or data that was on the GPU earlier in the step."""
        if traffic.kind != "transfer" or not traffic.direct or not traffic.in_step or traffic.of_module:
            return None
        source = traffic.source
        if source is not None and source.left is not None and traffic.what == "h2d":
            return Recognition(
                f"`{traffic.expression}` brings back to the GPU what left it in the same step, {times(traffic)}",
                traffic.location,
                Confidence.CERTAIN,
                evidence=(
                    Evidence(source.left, "it leaves the GPU here"),
                    Evidence(
                        traffic.location, f"and comes back here, {shown_size(traffic.bytes_per_step)} a step"
                    ),
                ),
                help="keep it on the GPU: do the work in between with torch's own operations there",
                notes=(saving(traffic, 2.0),),
            )
        if traffic.unchanged < 2 or traffic.unchanged * 2 < traffic.count:
            return None
        born = source.location if source is not None else None
        evidence = (
            [Evidence(born, "these bytes come from here and do not change")] if born is not None else []
        )
        route = _ROUTE[traffic.what]
        evidence += [Evidence(caller, "by this call") for caller in reversed(traffic.callers)]
        evidence.append(
            Evidence(
                traffic.location,
                f"moved {route} {times(traffic)}: {traffic.unchanged} of {traffic.count} copies bring what is there already",
            )
        )
        return Recognition(
            f"`{traffic.expression}` moves the same {shown_size(traffic.nbytes / traffic.count)} {route} {times(traffic)}",
            traffic.location,
            Confidence.CERTAIN,
            evidence=tuple(evidence),
            help="move it once, in front of the loop; in a module register it as a buffer, so that it moves along",
            notes=(saving(traffic),),
        )
