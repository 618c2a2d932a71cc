"""The rule `step-without-backward`."""

from samedevice.model.diagnostic import Severity
from samedevice.model.meeting import Meeting
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule


class StepWithoutBackward(Rule):
    """Checks for training steps in which nothing computes a gradient.

    ## Why is this bad?
    `optimizer.step()` applies the gradients that `backward()` left in the parameters. Without a backward pass
    there are none: the program runs, the GPU is busy, and the model stays as it was initialised.

    ## Example
    ```python
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.rand(8, 4)).pow(2).mean()
        optimizer.zero_grad()
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
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
    ```

    ## Fix safety
    There is no automatic fix: which value is the loss is for you to say.
    """

    name = "step-without-backward"
    group = "loop sanity"
    engines = ("lint",)
    severity = Severity.WARNING
    lesson = "A training step is four calls: `zero_grad`, the forward pass, `backward`, `step`."

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            "`step()` has no gradients to apply: nothing in the program calls `backward()`",
            help="Call `loss.backward()` before it",
        )
