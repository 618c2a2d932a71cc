"""The inventory as text: a tree table for a terminal of 80 columns or more."""

from collections.abc import Iterator

from samedevice.inventory.fold import Line, lines, size
from samedevice.inventory.record import Inventory

WIDTH = 80
_DEVICE, _DTYPE, _SIZE = 13, 8, 8


def render(inventory: Inventory, width: int = WIDTH) -> str:
    """The tree table as plain text."""
    return "\n".join(_text(row, width) for row in _rows(inventory))


def print_inventory(inventory: Inventory, console: object) -> None:
    """Print the tree table on a rich console, in colour where it has any."""
    from rich.console import Console
    from rich.text import Text

    assert isinstance(console, Console)
    for row in _rows(inventory):
        text = Text(_text(row, max(WIDTH, console.width)), no_wrap=True, overflow="ignore")
        if isinstance(row, str):
            text.stylize("red" if "! " in row else "dim" if "· " in row else "bold")
        elif row[1].stray is not None:
            text.stylize("red")
        elif row[1].depth == 0:
            text.stylize("bold")
        console.print(text, soft_wrap=True)


def _rows(inventory: Inventory) -> Iterator[str | tuple[str, Line]]:
    """Lines with their branches drawn; remarks and totals as text."""
    for section in inventory.sections:
        told = lines(section)
        for index, line in enumerate(told):
            yield _branch(told, index), line
            indent = _branch(told, index, below=True) + "  "
            if line.stray is not None:
                yield f"{indent}! {line.stray.rule}: {line.stray.why}"
            for remark in line.remarks:
                yield f"{indent}· {remark}"
        for note in section.notes:
            yield f"   · {note}"
    totals = ", ".join(f"{size(n)} on {device}" for device, n in sorted(inventory.bytes_by_device().items()))
    yield f"total: {totals or 'no tensors'}"


def _branch(told: list[Line], index: int, below: bool = False) -> str:
    """The branches in front of a line, or in front of a remark below it."""
    depth = told[index].depth
    if depth == 0:
        return ""
    drawn = []
    for level in range(1, depth + 1):
        more = False
        for later in told[index + 1 :]:
            if later.depth < level:
                break
            if later.depth == level:
                more = True
                break
        last = level == depth and not below
        drawn.append(("├─ " if more else "└─ ") if last else ("│  " if more else "   "))
    return "".join(drawn)


def _text(row: str | tuple[str, Line], width: int) -> str:
    if isinstance(row, str):
        return _cut(row, width)
    branch, line = row
    left = width - _DEVICE - _DTYPE - _SIZE - 3
    what = _cut(line.what, 30)
    name = _cut(branch + line.name, max(16, left - len(what) - 2), keep=len(branch))
    head = f"{name}{what:>{left - len(name)}}"
    return f"{head} {_cut(line.device, _DEVICE):<{_DEVICE}} {_cut(line.dtype, _DTYPE):<{_DTYPE}} {line.size:>{_SIZE}}".rstrip()


def _cut(text: str, width: int, keep: int = 0) -> str:
    """Shorten in the middle: both ends of a path tell more than its middle."""
    if len(text) <= width:
        return text
    room = max(width - keep - 1, 2)
    body = text[keep:]
    return text[:keep] + body[: room // 3] + "…" + body[len(body) - (room - room // 3) :]
