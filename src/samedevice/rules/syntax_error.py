"""The rule `syntax-error`."""

from samedevice.rules.rule import Rule


class SyntaxErrors(Rule):
    """Checks for files that cannot be read as Python.

    ## Why is this bad?
    Nothing in such a file can be analysed: other mistakes in it stay unseen. The text is read by
    the Python that runs samedevice, so syntax of a newer Python is an error as well. A file in
    another encoding than the one it declares (UTF-8 when it declares none) cannot be read either.

    The exit status is 2 then, and the other files are linted all the same. The rule cannot be
    ignored; exclude the file if it is meant to be as it is.

    ## Example
    ```python
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu"
    ```

    Use instead:
    ```python
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ```

    ## Fix safety
    There is no fix.
    """

    name = "syntax-error"
    group = "files"
    lesson = "What cannot be parsed cannot be analysed: mend the syntax first."
    engines = ("lint",)
