"""From the scene of a crash to its diagnostic: the rules' answer, with the confidence that a post mortem allows."""

from samedevice.model.diagnostic import Confidence, Diagnostic, Raised, TensorFact
from samedevice.model.scene import Kind, Operand, Scene
from samedevice.rules import all_rules

#: nothing was recorded, so what a run under observation would be certain of is likely here
_LOWER = {
    Confidence.CERTAIN: Confidence.LIKELY,
    Confidence.LIKELY: Confidence.POSSIBLE,
    Confidence.POSSIBLE: Confidence.POSSIBLE,
}

#: refusals whose message and failing line say everything there is to know
_PLAIN = (Kind.HOST_ONLY, Kind.PIN, Kind.LOAD, Kind.FORK)
GENERAL = "device-mismatch"


def diagnose(scene: Scene, *, ranks: tuple[int, ...] = (), count: int = 1) -> Diagnostic | None:
    """What the rules make of the scene; None when only the general one answers, which knows no cause."""
    for rule in sorted(all_rules().values(), key=lambda r: -r.specificity):
        try:
            found = rule.recognise(scene)
        except Exception:
            # A rule that expects more than a post mortem knows has nothing to say here.
            continue
        if found is None:
            continue
        if rule.name == GENERAL:
            return None
        sure = (
            found.confidence if scene.kind in _PLAIN and scene.extra.get("live") else _LOWER[found.confidence]
        )
        return Diagnostic(
            rule=rule.name,
            severity=rule.severity,
            confidence=sure,
            message=found.message,
            location=found.location,
            raised=Raised(scene.raised, scene.exception, scene.message, count),
            tensors=tuple(_fact(o, i == scene.stray) for i, o in enumerate(scene.operands) if o.expression),
            evidence=found.evidence,
            help=found.help,
            lesson=rule.lesson or None,
            suggestion=found.suggestion,
            fix=found.fix,
            notes=found.notes,
            count=count,
            ranks=ranks,
        )
    return None


def _fact(operand: Operand, at_fault: bool) -> TensorFact:
    born = operand.born
    return TensorFact(
        expression=operand.shown,
        device=operand.device,
        owner=operand.owner,
        shape=operand.shape,
        dtype=operand.dtype,
        born=None if born is None else born.location,
        at_fault=at_fault,
    )
