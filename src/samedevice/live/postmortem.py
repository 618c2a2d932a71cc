"""The post mortem: an exception with its live frames, or a traceback's text, becomes a diagnostic."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from samedevice.live.found import FoundError
from samedevice.live.points import find_files, live_points, text_points
from samedevice.live.scenes import CrashScene
from samedevice.live.search import find_errors
from samedevice.live.verdict import diagnose
from samedevice.model.diagnostic import Diagnostic
from samedevice.program.exceptions import chain
from samedevice.torch_facts.messages import Match, match_message


@dataclass(frozen=True, slots=True)
class Autopsy:
    """What a post mortem found.

    Attributes:
        error: the device error, in the catalogue's terms.
        diagnostic: its cause, None when that could not be told.
    """

    error: FoundError
    diagnostic: Diagnostic | None


def explain_exception(exception: BaseException) -> Autopsy | None:
    """The device error in an exception or in what it was raised from; None when there is none."""
    for current in chain(exception):
        text = _text(current)
        if _is_wrapped(text):
            found = explain_text(text)
            if found is not None:
                return found
            continue
        match = match_message(text)
        if match is None or not (match.wording.template.exact or match.begin == 0):
            continue
        return _from_live(current, match, text)
    return None


def _text(exception: BaseException) -> str:
    try:
        return str(exception)
    except Exception:
        return ""


def _is_wrapped(text: str) -> bool:
    """Another process or thread raised it; only its traceback's text came over."""
    return "Traceback (most recent call last)" in text or "Original Traceback" in text


def _from_live(exception: BaseException, match: Match, text: str) -> Autopsy:
    points = live_points(exception.__traceback__)
    kind = type(exception).__name__
    error = FoundError(match=match, exception=kind)
    scene = CrashScene(points, match, kind, text, device_of=tensor_device).build()
    if scene is None:
        return Autopsy(error, None)
    scene.extra["live"] = True
    return Autopsy(error, diagnose(scene))


def tensor_device(value: Any) -> str | None:
    """Where a live tensor says it is."""
    device = getattr(value, "device", None)
    torch = sys.modules.get("torch")
    if torch is None or device is None:
        return None
    text = str(device)
    return f"{text}:0" if text in ("cuda", "xpu") else text


def explain_text(text: str, roots: Sequence[str] = ()) -> Autopsy | None:
    """The first device error of a traceback's text, with its cause when the sources are at hand."""
    errors = find_errors(text)
    if not errors:
        return None
    return Autopsy(errors[0], explain_found(errors[0], roots))


def explain_found(error: FoundError, roots: Sequence[str] = ()) -> Diagnostic | None:
    """The cause of an error found in a text, None when the sources do not show it."""
    files = find_files(error.frames, roots)
    if not files:
        return None
    points = text_points(error.frames, files)
    scene = CrashScene(
        points, error.match, error.exception or "RuntimeError", error.match.text, roots, wrapper=error.wrapper
    ).build()
    if scene is None:
        return None
    found = diagnose(scene, ranks=error.ranks, count=error.count)
    return None if found is None else replace(found, count=error.count)
