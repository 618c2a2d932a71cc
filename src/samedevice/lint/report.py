"""From what was found to diagnostics: places become locations, rules find the words."""

import ast
from collections.abc import Callable
from importlib import import_module

from samedevice.lint.causes import Cause
from samedevice.lint.meet import Found
from samedevice.lint.run import Run
from samedevice.lint.values import Event, Site, Tensor
from samedevice.model.diagnostic import Confidence, Diagnostic, TensorFact
from samedevice.model.meeting import Happening, Meeting, Place
from samedevice.rules.rule import Rule
from samedevice.source.edits import locate


def place(site: Site) -> Place:
    """A site with its location."""
    file = site.file
    return Place(locate(file.path, file.text, site.node), site.node, file.text, site.function, file.parsed())


def happening(event: Event | None, what: str | None = None) -> Happening | None:
    """An event as a step of the story."""
    if event is None:
        return None
    device = str(event.device.dev) if event.device is not None else None
    return Happening(place(event.site), what if what is not None else event.text, device)


def expression(node: ast.AST | None, otherwise: str) -> str:
    """An operand as written."""
    if node is None:
        return otherwise
    try:
        text = " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError):
        return otherwise
    return text if len(text) <= 50 else text[:49] + "…"


def meeting(found: Found, cause: Cause) -> Meeting:
    """What the rules are told."""
    tensor: Tensor | None = found.stray.tensor if found.stray is not None else None
    other = found.other
    choice = tensor.choice if tensor is not None else None
    chosen = (
        Happening(place(choice.site), str(choice.dev), str(choice.dev))
        if choice is not None and choice.site is not None
        else None
    )
    confidence = Confidence.LIKELY if found.likely or found.entry else Confidence.CERTAIN
    born = tensor.birth if tensor is not None else None
    batch = (
        happening(tensor.batch)
        if tensor is not None and tensor.batch is not None and tensor.batch.kind == "batch"
        else None
    )
    return Meeting(
        cause=cause.rule,
        operator=found.operator,
        met=place(found.site),
        culprit=place(cause.culprit),
        confidence=confidence,
        stray=expression(found.stray.node, "the tensor") if found.stray is not None else "the tensor",
        device=str(tensor.dev) if tensor is not None and tensor.dev is not None else "cpu",
        other=expression(other.node, "the other operand") if other is not None else None,
        wanted=str(found.wanted) if found.wanted is not None else None,
        anchor=found.anchor,
        born=happening(born, f"{born.kind}:{born.text}")
        if born is not None and born.kind in ("factory", "numpy", "loaded", "collated", "following")
        else None,
        chosen=chosen,
        defaulted=happening(cause.defaulted),
        moved=happening(tensor.moved) if tensor is not None else None,
        held=happening(cause.held),
        batch=batch,
        bound=happening(tensor.bound) if tensor is not None else None,
        lost=happening(tensor.lost) if tensor is not None else None,
        copied=happening(cause.copied),
        created=happening(cause.created),
        module_moved=happening(cause.module_moved),
        name=cause.name,
        owner=cause.owner,
        shallow=bool(found.entry),
        facts=cause.facts,
    )


def diagnostics(run: Run, selected: Callable[[str], bool]) -> list[Diagnostic]:
    """The diagnostics of a run, each mistake once."""
    best: dict[tuple[object, ...], Diagnostic] = {}
    if not run.meetings:
        return []
    for found in run.meetings:
        cause: Cause | None = found.cause
        if cause is None or not cause.rule or not selected(cause.rule):
            continue
        rule = rule_called(cause.rule)
        told = meeting(found, cause)
        said = rule.lint(told)
        if said is None:
            continue
        diagnostic = Diagnostic(
            rule=rule.name,
            severity=rule.severity,
            confidence=said.confidence,
            message=said.message,
            location=said.location,
            tensors=facts(told),
            evidence=said.evidence,
            help=said.help,
            lesson=rule.lesson or None,
            suggestion=said.suggestion,
            fix=said.fix,
            notes=said.notes,
        )
        key = (said.location.path, said.location.line, said.location.column)
        known = best.get(key)
        if known is None:
            best[key] = diagnostic
    return sorted(best.values(), key=lambda d: (d.location.path, d.location.line, d.location.column, d.rule))


def rule_called(name: str) -> Rule:
    """One rule, without importing the others."""
    import_module("samedevice.rules." + name.replace("-", "_"))
    return Rule._registry[name]


def facts(told: Meeting) -> tuple[TensorFact, ...]:
    """The operands, as the report shows them."""
    if told.wanted is None or told.stray == "the tensor":
        return ()
    born = told.born.place.location if told.born is not None else None
    first = TensorFact(told.stray, told.device, born=born, at_fault=True)
    if told.other is None:
        return (first,)
    return (first, TensorFact(told.other, told.wanted))
