"""Diagnostics in another language than English."""

from samedevice.model.diagnostic import Diagnostic


def translated(diagnostic: Diagnostic, language: str) -> Diagnostic:
    """The diagnostic with its sentences in `language`, as far as they are known."""
    if language == "en":
        return diagnostic
    return diagnostic
