"""From traffic to diagnostics: the rules of cost are asked, each place once."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from samedevice.model.diagnostic import Diagnostic
from samedevice.model.traffic import Traffic
from samedevice.rules import all_rules
from samedevice.source.suppressions import find_suppressions, silence


@dataclass(frozen=True, slots=True)
class Findings:
    """What the rules of cost say, and how much of it comments in the source silence."""

    diagnostics: tuple[Diagnostic, ...]
    suppressed: int = 0


def findings(traffic: Iterable[Traffic]) -> Findings:
    """The diagnostics that no suppression comment silences."""
    traffic = list(traffic)
    texts = {t.location.path: t.text for t in traffic}
    texts |= {t.loader.path: t.loader_text for t in traffic if t.loader is not None}
    kept: list[Diagnostic] = []
    suppressed = 0
    for path, group in groupby(diagnostics(traffic), key=lambda d: d.location.path):
        left, silenced = silence(group, find_suppressions(texts.get(path, "")))
        kept += left
        suppressed += silenced
    return Findings(tuple(kept), suppressed)


def diagnostics(traffic: Iterable[Traffic]) -> tuple[Diagnostic, ...]:
    """What the rules of cost say, in the order of the source; one mistake is one diagnostic."""
    rules = sorted(
        (rule for rule in all_rules().values() if "profile" in rule.engines),
        key=lambda rule: -rule.specificity,
    )
    traffic = list(traffic)
    # Where a round trip leaves the GPU is told with it.
    told_with = {
        t.source.left for t in traffic if t.source is not None and t.source.left is not None and t.in_step
    }
    found: dict[object, tuple[Diagnostic, float]] = {}
    for facts in traffic:
        for rule in rules:
            said = rule.recognise_traffic(facts)
            if said is None or said.location in told_with:
                continue
            cause = (rule.name, said.cause or said.location)
            told, seconds = found.get(cause, (None, 0.0))
            count = facts.count + (told.count if told is not None else 0)
            if told is None or facts.seconds > seconds:
                told = Diagnostic(
                    rule=rule.name,
                    severity=rule.severity,
                    confidence=said.confidence,
                    message=said.message,
                    location=said.location,
                    evidence=said.evidence,
                    help=said.help,
                    lesson=rule.lesson or None,
                    suggestion=said.suggestion,
                    fix=said.fix,
                    notes=said.notes,
                    count=count,
                )
                found[cause] = (told, facts.seconds)
            else:
                found[cause] = (replace(told, count=count), seconds)
            break
    return tuple(sorted((d for d, _ in found.values()), key=lambda d: (d.location, d.rule)))
