"""The rule `sync-in-loop`."""

import ast

from samedevice.model.diagnostic import Confidence, Evidence, Severity
from samedevice.model.fix import Applicability, Fix
from samedevice.model.traffic import Traffic
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.traffic import saving, times
from samedevice.source.calls import SourceCalls

#: reason → (what it does, what to do about it)
_REASONS = {
    "item": ("reads a value of the GPU", "keep the tensor (`.detach()`) and read it once, after the loop or every so many steps"),
    "tolist": ("reads a tensor of the GPU", "gather on the GPU and read once, after the loop"),
    "bool": ("asks the GPU for a truth value", "decide on the GPU (`torch.where`), or ask every so many steps"),
    "int": ("reads a number of the GPU", "keep it a tensor, or read it after the loop"),
    "float": ("reads a number of the GPU", "keep the tensor (`.detach()`) and read it once, after the loop"),
    "complex": ("reads a number of the GPU", "keep it a tensor, or read it after the loop"),
    "index": ("uses a value of the GPU as a Python index", "keep the index a tensor: `x.index_select`, `x[:, i]` with a tensor on the GPU"),
    "print": ("prints a tensor of the GPU", "print every so many steps"),
    "in": ("searches a tensor of the GPU and asks for the answer", "compare on the GPU and keep the result there"),
    "nonzero": ("asks the GPU how many elements are not zero", "work with the mask itself: `torch.where(mask, a, b)`, multiplication"),
    "mask": ("selects by a mask, whose count the host has to know", "work with the mask itself: `torch.where(mask, a, b)`, multiplication"),
    "masked_select": ("selects by a mask, whose count the host has to know", "work with the mask itself: `torch.where(mask, a, b)`"),
    "unique": ("asks the GPU how many distinct values there are", "do it once, before the loop, or on the CPU in the data set"),
    "bincount": ("asks the GPU for the largest value", "use `torch.zeros(n, device=…).scatter_add_` with a known size"),
    "equal": ("asks the GPU for a truth value", "compare with `==` and keep the result on the GPU"),
    "allclose": ("asks the GPU for a truth value", "compare every so many steps"),
    "multinomial": ("checks the probabilities on the host", "sample with replacement, or with the exponential trick `(p / torch.empty_like(p).exponential_()).argmax(-1)`"),
    "repeat_interleave": ("asks the GPU for the size of the result", "give `output_size`"),
    "synchronize": ("waits for the GPU", "leave it out; only timing needs it"),
    "cpu": ("copies a small result to the CPU and waits for it", "keep it on the GPU and copy once, after the loop"),
}  # fmt: skip

#: a copy to the CPU of at most so many elements is taken for a value that somebody looks at
SMALL = 1024


class SyncInLoop(Rule):
    """Checks for places where the host waits for the GPU in every step.

    ## Why is this bad?
    The GPU works through a queue that the host fills ahead. `loss.item()`, `if mask.any():`, `print(loss)`, a
    boolean mask as an index need a value *now*: the host waits until the queue is empty, and the GPU has
    nothing to do until the host has filled it again. Once in a hundred steps that is nothing; in every step it
    takes away the overlap altogether.

    ## Example
    ```python
    import torch

    device = "cuda"
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for step in range(10):
        loss = model(torch.randn(16, 8, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total)
    ```

    Use instead:
    ```python
    import torch

    device = "cuda"
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for step in range(10):
        loss = model(torch.randn(16, 8, device=device)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(total)
    ```

    ## Fix safety
    The fix is unsafe: the sum becomes a tensor of the GPU, where it was a number.
    """

    name = "sync-in-loop"
    group = "cost"
    severity = Severity.WARNING
    category = "performance"
    specificity = 40
    lesson = "Let the GPU run ahead: read results when they are needed, not in every step."
    engines = ("profile",)

    def recognise_traffic(self, traffic: Traffic) -> Recognition | None:
        """A wait in most steps that the user's own line asks for."""
        if not traffic.direct or not traffic.in_step:
            return None
        reason = traffic.what
        if traffic.kind == "transfer":
            if not _is_small_read(traffic):
                return None
            reason = "cpu"
        if reason not in _REASONS:
            return None
        does, remedy = _REASONS[reason]
        return Recognition(
            f"`{traffic.expression or traffic.function}` {does} and so waits for it {times(traffic)}",
            traffic.location,
            Confidence.CERTAIN,
            evidence=(
                *(
                    (Evidence(traffic.loop, "the loop whose steps these are"),)
                    if traffic.loop is not None
                    else ()
                ),
                Evidence(
                    traffic.location,
                    f"waited {traffic.count} times in {traffic.hits} of {traffic.steps} steps",
                ),
            ),
            help=remedy,
            fix=_detach(traffic) if reason == "item" else None,
            notes=(
                saving(traffic),
                "not counted: what the GPU could have done meanwhile, which is usually more",
            ),
        )


def _is_small_read(traffic: Traffic) -> bool:
    numel = 1
    for size in traffic.shape:
        numel *= size
    return traffic.what == "d2h" and traffic.training and not traffic.non_blocking and numel <= SMALL


def _detach(traffic: Traffic) -> Fix | None:
    """`total += loss.item()` becomes `total += loss.detach()`; other uses may need a number."""
    calls = SourceCalls(traffic.location.path, traffic.text)
    call = calls.at(traffic.location)
    statement = calls.statement_at(traffic.location)
    if not isinstance(call, ast.Call) or not isinstance(statement, ast.AugAssign):
        return None
    if not isinstance(statement.op, ast.Add) or not isinstance(statement.target, ast.Name):
        return None
    # As an argument of another call a number may be needed.
    outer = (n for n in ast.walk(statement.value) if isinstance(n, ast.Call) and n is not call)
    if any(call in ast.walk(node) for node in outer):
        return None
    edit = calls.renamed_method(call, "detach")
    return None if edit is None else Fix("Add up on the GPU", Applicability.UNSAFE, (edit,))
