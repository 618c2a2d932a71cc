"""Edits taken back."""

from samedevice.model.fix import Edit, Fix
from samedevice.source.lines import LineIndex
from samedevice.source.rewriting import edit_bytes


def undone(path: str, text: str, new: str, fix: Fix) -> str:
    """The text that the inverse edits make of `new`, which the fix made of `text`."""
    index, after, grown = LineIndex(text), LineIndex(new), 0
    inverse = []
    for edit in sorted(fix.edits):
        start, end = index.offset(edit.start), index.offset(edit.end)
        written = edit.new_text.replace("\r\n", "\n").replace("\n", "\r\n" if "\r\n" in text else "\n")
        at = start + grown
        inverse.append(Edit(path, after.point(at), after.point(at + len(written)), text[start:end]))
        grown += len(written) - (end - start)
    return edit_bytes(path, new.encode(), inverse).decode()
