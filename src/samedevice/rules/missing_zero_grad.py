"""The rule `missing-zero-grad`."""

import ast

from samedevice.model.diagnostic import Severity
from samedevice.model.meeting import Meeting
from samedevice.rules.reading import told, unsafe
from samedevice.rules.rule import Recognition, Rule
from samedevice.source import edits


class MissingZeroGrad(Rule):
    """Checks for training loops that never clear the gradients.

    ## Why is this bad?
    `backward()` adds to the gradients that are there. When nothing clears them, each step applies the sum over all
    batches so far: training diverges or crawls, and no error says why.

    ## Example
    ```python
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.rand(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(loss.item())
    ```

    Use instead:
    ```python
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.rand(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item())
    ```

    ## Fix safety
    The fix is unsafe: it changes how the model trains, which is the point.
    """

    name = "missing-zero-grad"
    group = "loop sanity"
    engines = ("lint",)
    severity = Severity.WARNING
    lesson = "`backward()` adds up: clear the gradients once for each step, right before or after it."

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        place = meeting.culprit
        node = place.node
        fix = None
        statement = edits.statement_of(place.tree, node)
        if isinstance(statement, ast.Expr) and statement.value is node and isinstance(node, ast.Call):
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if isinstance(owner, ast.Name | ast.Attribute):
                line = f"{ast.unparse(owner)}.zero_grad()"
                fix = unsafe(
                    "Clear the gradients after the step",
                    edits.insert_after(place.location.path, place.text, statement, line),
                )
        return told(
            meeting,
            "gradients add up from step to step: nothing in the program calls `zero_grad()`",
            help="Clear the gradients once for each step",
            fix=fix,
        )
