"""Diagnostics in another language than English.

The rules write their sentences in English. In German a diagnostic's message and remedy are the
catalogue's words for its rule, with the operand at fault; its evidence is translated sentence by
sentence; a sentence without a translation keeps its place and says only that it belongs here.
"""

from dataclasses import replace
from functools import cache

from samedevice.live.german import EVIDENCE, MEETING
from samedevice.model.diagnostic import Diagnostic, Evidence
from samedevice.torch_facts.messages.causes import CAUSES
from samedevice.torch_facts.messages.template import Template, flatten

UNKNOWN = "diese Zeile gehört dazu"


def translated(diagnostic: Diagnostic, language: str) -> Diagnostic:
    """The diagnostic with its sentences in `language`."""
    if language != "de":
        return diagnostic
    cause = CAUSES.get(diagnostic.rule)
    if cause is None:
        return diagnostic
    return replace(
        diagnostic,
        message=f"{cause.what.de}{_operand(diagnostic)}",
        evidence=tuple(
            Evidence(e.location, german_evidence(e.message) or UNKNOWN) for e in diagnostic.evidence
        ),
        help=cause.write.de,
        lesson=None,
        suggestion=diagnostic.suggestion or cause.code or None,
        fix=None if diagnostic.fix is None else replace(diagnostic.fix, title=cause.write.de),
        notes=(f"woran erkennbar: {cause.sign.de}",),
    )


def _operand(diagnostic: Diagnostic) -> str:
    guilty = next((t for t in diagnostic.tensors if t.at_fault), None)
    others = next((t.device for t in diagnostic.tensors if not t.at_fault), None)
    if guilty is None or guilty.expression is None:
        return ""
    rest = f", gebraucht auf {others}" if others and others != guilty.device else ""
    return f" – hier `{guilty.expression}` auf {guilty.device}{rest}"


def german_evidence(sentence: str) -> str | None:
    """A sentence of a story in German, None when there is no translation."""
    flat = flatten(sentence).strip()
    inside = ""
    if flat.endswith(")") and " (inside " in flat:
        flat, _, package = flat.rpartition(" (inside ")
        inside = f" (in {package}"
    for template, german in _templates():
        found = template.find(flat)
        if found is not None and (found[0], found[1]) == (0, len(flat)):
            fields = found[2]
            if german.startswith("hier treffen sie"):
                for english, own in MEETING:
                    fields["what"] = fields["what"].replace(english, own)
            return german.format(**fields) + inside
    return None


@cache
def _templates() -> tuple[tuple[Template, str], ...]:
    return tuple((Template.parse(english), german) for english, german in EVIDENCE.items())
