"""Renderers: records to text; one function a format, imported when it is chosen."""

from importlib import import_module
from typing import TYPE_CHECKING

from samedevice.model.errors import UserError
from samedevice.model.outcome import Outcome

if TYPE_CHECKING:
    from samedevice.report.excerpt import ReadLines

#: format -> module
_RENDERERS = {
    "text": "samedevice.report.text",
    "concise": "samedevice.report.concise",
    "json": "samedevice.report.json",
    "sarif": "samedevice.report.sarif",
    "github": "samedevice.report.github",
}

#: the names that `--format` takes
FORMATS = tuple(_RENDERERS)


def render(
    outcome: Outcome,
    format: str = "text",
    *,
    color: bool = False,
    width: int = 80,
    root: str | None = None,
    read: "ReadLines | None" = None,
) -> str:
    """The report of `outcome`, ending in a newline.

    Args:
        color: write ANSI colours (`text` and `concise` only).
        width: columns of the terminal (`text` only).
        root: folder that relative paths start from; a program may have changed the working
            directory by the time the report is made. The working directory when None.
        read: how source lines are read; from the files under `root` when None.
    """
    if format not in _RENDERERS:
        raise UserError(f"there is no format `{format}`; choose one of {', '.join(FORMATS)}")
    module = import_module(_RENDERERS[format])
    if format == "text":
        return str(module.render(outcome, color=color, width=width, root=root, read=read))
    if format == "concise":
        return str(module.render(outcome, color=color))
    return str(module.render(outcome))
