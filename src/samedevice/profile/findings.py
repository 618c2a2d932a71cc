"""From traffic to diagnostics: the rules of cost are asked, each place once."""

from collections.abc import Iterable
from dataclasses import replace

from samedevice.model.diagnostic import Diagnostic
from samedevice.model.traffic import Traffic
from samedevice.rules import all_rules


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
