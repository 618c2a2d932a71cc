"""The rule `unpinned-non-blocking`."""

from samedevice.model.diagnostic import Confidence, Severity
from samedevice.model.traffic import Traffic
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.traffic import loader_evidence, pin_memory, pinned_saving, times

#: bytes a step below which nobody would notice
LEAST = 4 * 1024


class UnpinnedNonBlocking(Rule):
    """Checks for copies that ask for `non_blocking=True` out of memory that is not pinned.

    ## Why is this bad?
    Only a copy out of pinned memory can run while the host goes on. Out of ordinary memory
    `non_blocking=True` does nothing: the copy goes through a buffer of the driver, which the host fills. The
    overlap that the line promises does not take place.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    device = "cuda"
    loader = DataLoader(TensorDataset(torch.randn(64, 1024)), batch_size=8)
    model = torch.nn.Linear(1024, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        x = x.to(device, non_blocking=True)
        model(x).sum().backward()
        optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    device = "cuda"
    loader = DataLoader(TensorDataset(torch.randn(64, 1024)), batch_size=8, pin_memory=True)
    model = torch.nn.Linear(1024, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        x = x.to(device, non_blocking=True)
        model(x).sum().backward()
        optimizer.step()
    ```

    ## Fix safety
    The fix is unsafe: on a machine without a GPU `pin_memory=True` warns, and pinned memory cannot be swapped out.
    """

    name = "unpinned-non-blocking"
    group = "cost"
    severity = Severity.WARNING
    category = "performance"
    specificity = 30
    lesson = "`non_blocking=True` and `pin_memory=True` only work together."
    engines = ("profile",)

    def recognise_traffic(self, traffic: Traffic) -> Recognition | None:
        """A copy to the GPU that was asked not to wait, and cannot but wait."""
        if traffic.kind != "transfer" or traffic.what != "h2d" or not traffic.in_step or traffic.of_module:
            return None
        if not (traffic.pageable and traffic.non_blocking) or traffic.bytes_per_step < LEAST:
            return None
        if not traffic.direct and traffic.loader is None:
            return None
        return Recognition(
            f"`{traffic.expression}` asks for `non_blocking` out of memory that is not pinned, {times(traffic)}",
            traffic.loader or traffic.location,
            Confidence.CERTAIN,
            evidence=loader_evidence(traffic),
            help=(
                "give the DataLoader `pin_memory=True`"
                if traffic.loader is not None
                else "pin the source: `x.pin_memory().to(device, non_blocking=True)`"
            ),
            fix=pin_memory(traffic),
            notes=(pinned_saving(traffic),),
            cause=traffic.loader,
        )
