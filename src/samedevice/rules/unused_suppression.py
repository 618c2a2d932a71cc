"""The rule `unused-suppression`."""

from samedevice.model.diagnostic import Severity
from samedevice.rules.rule import Rule


class UnusedSuppression(Rule):
    """Checks for suppression comments that silence nothing.

    ## Why is this bad?
    A comment that silences nothing is a leftover: the mistake is gone, or the comment names
    another rule than the one that is reported. It misleads the reader, and the day the mistake comes
    back in that place it hides it.

    Reported is a comment that names a rule which `lint` looked for and did not find there, a
    name that no rule has, and a comment without a list where nothing is found at all. A rule that
    only `check` reports is not judged.

    ## Example
    ```python
    import torch

    weights = torch.ones(3, device="cuda")  # samedevice: ignore[numpy-on-gpu] plotted below
    print(weights.sum().item())
    ```

    Use instead:
    ```python
    import torch

    weights = torch.ones(3, device="cuda")
    print(weights.sum().item())
    ```

    ## Fix safety
    The fix is safe: it removes the comment, or the unused names from its list. A misspelt name is
    not removed, because it was meant to silence something.
    """

    name = "unused-suppression"
    group = "suppressions"
    severity = Severity.WARNING
    lesson = "A suppression stays true only as long as it silences something; remove it with what it excused."
    engines = ("lint",)
