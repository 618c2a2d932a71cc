"""The inventory in a notebook: the tree as nested, foldable HTML."""

from html import escape

from samedevice.inventory.fold import Line, lines, size
from samedevice.inventory.record import Inventory

_STYLE = (
    "<style>.sd-audit{font:13px/1.5 ui-monospace,monospace;border-collapse:collapse}"
    ".sd-audit td,.sd-audit th{padding:1px 12px 1px 0;text-align:left;white-space:pre;border:0;background:none}"
    ".sd-audit td:last-child{text-align:right}.sd-audit .stray{color:#c5221f}"
    ".sd-audit .note{opacity:.7}.sd-audit .top td{font-weight:600;padding-top:6px}</style>"
)


def render(inventory: Inventory) -> str:
    """One table; every text of the program is escaped."""
    rows = []
    for section in inventory.sections:
        for line in lines(section):
            rows.append(_row(line))
        rows.extend(_note(note, 1) for note in section.notes)
    totals = ", ".join(f"{size(n)} on {device}" for device, n in sorted(inventory.bytes_by_device().items()))
    rows.append(_note(f"total: {totals or 'no tensors'}", 0))
    return f'<div>{_STYLE}<table class="sd-audit">{"".join(rows)}</table></div>'


def _row(line: Line) -> str:
    kind = "stray" if line.stray is not None else "top" if line.depth == 0 else ""
    cells = ["  " * line.depth + line.name, line.what, line.device, line.dtype, line.size]
    html = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    notes = [_note(f"! {line.stray}", line.depth + 1, "stray")] if line.stray is not None else []
    notes += [_note(remark, line.depth + 1) for remark in line.remarks]
    return f'<tr class="{kind}">{html}</tr>{"".join(notes)}'


def _note(text: str, depth: int, kind: str = "note") -> str:
    return f'<tr class="{kind}"><td colspan="5">{escape("  " * depth + text)}</td></tr>'
