"""Styled lines as HTML that a notebook shows: one block, inline styles, light and dark themes."""

from collections.abc import Iterable
from html import escape

from samedevice.report.layout import Line

#: style name -> CSS; JupyterLab's own colours where it has them, with a fallback that both themes can show
_STYLES = {
    "error": "color:var(--jp-error-color1,#c62828);font-weight:bold",
    "warning": "color:var(--jp-warn-color1,#b26a00);font-weight:bold",
    "info": "color:var(--jp-info-color1,#0277bd);font-weight:bold",
    "headline": "font-weight:bold",
    "gutter": "opacity:.55",
    "path": "color:var(--jp-content-link-color,#1565c0)",
    "title": "font-weight:bold",
    "number": "font-weight:bold;opacity:.75",
    "code": "font-weight:bold",
    "suggestion": "color:var(--jp-success-color1,#2e7d32)",
    "fault": "color:var(--jp-error-color1,#c62828);font-weight:bold",
    "raised": "color:var(--jp-error-color1,#c62828)",
    "lesson": "font-weight:bold",
    "help": "color:var(--jp-success-color1,#2e7d32);font-weight:bold",
    "fix": "color:var(--jp-success-color1,#2e7d32);font-weight:bold",
    "note": "font-weight:bold",
    "good": "color:var(--jp-success-color1,#2e7d32);font-weight:bold",
    "bad": "color:var(--jp-error-color1,#c62828);font-weight:bold",
    "dim": "opacity:.65",
}

_BLOCK = (
    "margin:.4em 0;padding:.6em .9em;border-left:4px solid var(--jp-warn-color1,#f57c00);"
    "background:var(--jp-layout-color2,rgba(128,128,128,.09));color:var(--jp-content-font-color1,inherit);"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);"
    "line-height:1.4;white-space:pre-wrap;overflow-x:auto"
)


def html_of(lines: Iterable[Line]) -> str:
    """The lines as one block of HTML; nothing is loaded from anywhere."""
    shown = "\n".join("".join(_span(text, style) for text, style in line).rstrip() for line in lines)
    return f'<div class="samedevice" style="{_BLOCK}">{shown.strip(chr(10))}</div>'


def _span(text: str, style: str) -> str:
    safe = escape(text)
    css = _STYLES.get(style)
    return f'<span style="{css}">{safe}</span>' if css and text.strip() else safe
