"""The rule `pageable-copy`."""

from samedevice.model.diagnostic import Confidence, Severity
from samedevice.model.traffic import Traffic
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.traffic import loader_evidence, pin_memory, pinned_saving, shown_size, times

#: bytes a step below which pinning saves less than it costs
LEAST = 256 * 1024


class PageableCopy(Rule):
    """Checks for batches that are copied to the GPU out of pageable memory, in every step.

    ## Why is this bad?
    The GPU can only read page-locked ("pinned") memory by itself. A copy out of ordinary memory goes through a
    buffer of the driver first: it is about half as fast, and the host has to wait for it. A DataLoader with
    `pin_memory=True` puts its batches into pinned memory in the background, and
    `batch.to(device, non_blocking=True)` then overlaps with the work of the GPU.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    device = "cuda"
    data = TensorDataset(torch.randn(256, 4096))
    loader = DataLoader(data, batch_size=32)
    model = torch.nn.Linear(4096, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        x = x.to(device)
        model(x).sum().backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    device = "cuda"
    data = TensorDataset(torch.randn(256, 4096))
    loader = DataLoader(data, batch_size=32, pin_memory=True)
    model = torch.nn.Linear(4096, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        x = x.to(device, non_blocking=True)
        model(x).sum().backward()
        optimizer.step()
    ```

    ## Fix safety
    The fix is unsafe: on a machine without a GPU `pin_memory=True` warns, and pinned memory cannot be swapped out.
    """

    name = "pageable-copy"
    group = "cost"
    severity = Severity.INFO
    category = "performance"
    specificity = 20
    lesson = "Batches for the GPU belong in pinned memory."
    engines = ("profile",)

    def recognise_traffic(self, traffic: Traffic) -> Recognition | None:
        """New data out of pageable memory, enough of it."""
        if traffic.kind != "transfer" or traffic.what != "h2d" or not traffic.in_step or traffic.of_module:
            return None
        if not traffic.pageable or traffic.non_blocking or traffic.bytes_per_step < LEAST:
            return None
        if not traffic.direct and traffic.loader is None:
            return None
        if traffic.source is None or traffic.source.action in ("created", "derived", "moved", "host-data"):
            return None
        return Recognition(
            f"`{traffic.expression}` copies {shown_size(traffic.bytes_per_step)} out of pageable memory {times(traffic)}",
            traffic.loader or traffic.location,
            Confidence.CERTAIN,
            evidence=loader_evidence(traffic),
            help=(
                "give the DataLoader `pin_memory=True` and move with `non_blocking=True`"
                if traffic.loader is not None
                else "pin it first and do not wait: `x.pin_memory().to(device, non_blocking=True)`"
            ),
            fix=pin_memory(traffic),
            notes=(pinned_saving(traffic),),
            cause=traffic.loader,
        )
