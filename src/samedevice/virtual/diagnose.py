"""From the mismatches of a run to its mistakes: each cause once, with a count, in the order of time."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from samedevice.model.diagnostic import Diagnostic, Location, Raised, TensorFact
from samedevice.model.fix import Fix
from samedevice.model.scene import Action, Holder, Kind, Operand, Scene, Step
from samedevice.program.files import SKIP, START, USER, kind_of
from samedevice.program.frames import user_frames
from samedevice.rules import all_rules
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Names, Sites
from samedevice.virtual.mismatches import Settlement
from samedevice.virtual.postmortem import scene_of_exception
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.scenes import SceneBuilder
from samedevice.virtual.surroundings import Surroundings
from samedevice.virtual.tags import CPU, tag_of

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

Key = tuple[Any, ...]

#: edits that are thought of for one mistake
MOST_FIXES = 6

#: different places of mismatches that are looked at in full; beyond it they are only counted
MOST_SCENES = 300


@dataclass(slots=True)
class Mistake:
    """One mistake of the run, how often it fired, and the edits that may take it out."""

    diagnostic: Diagnostic
    fixes: tuple[Fix, ...] = ()
    count: int = 0


@dataclass(slots=True)
class Verdict:
    """What is known of mismatches with one signature: the mistake, and where the call's result goes.

    `relocate`: operands on other devices move there for good, so that what is computed from them
    alone does not meet the same mistake again (an optimizer's state).
    """

    mistake: Mistake
    device: int | None
    relocate: bool


class Diagnoser:
    """Is told of every mismatch while it happens; gives the diagnostics at the end."""

    def __init__(self) -> None:
        self.mistakes: dict[Key, Mistake] = {}
        #: work out fixes; None looks at no sources for them
        self.editable: Callable[[str], bool] = _users
        self._seen: dict[Key, Verdict] = {}
        self._blamed: set[int] = set()
        #: where a mistake's tensor was born, and its device -> the first mistake told of it
        self._born: dict[tuple[Location, str], Mistake] = {}
        self._rules = sorted(all_rules().values(), key=lambda r: -r.specificity)

    @property
    def problems(self) -> int:
        """Number of mistakes found so far."""
        return len(self.mistakes)

    def mismatch(self, refusal: Refusal, frame: FrameType, engine: "Engine") -> Settlement | None:
        """A call that CUDA refuses; everything that takes part is alive."""
        key = _signature(refusal, frame)
        verdict = self._seen.get(key)
        if verdict is None:
            verdict = self._seen[key] = self._diagnose(refusal, frame, engine)
        verdict.mistake.count += 1
        refusal.extra["mistake"] = verdict.mistake  # whoever catches the exception finds its cause by it
        if verdict.device is None:
            return None
        keep = (
            [t for _, t, device in refusal.operands if device != verdict.device] if verdict.relocate else []
        )
        return Settlement(verdict.device, tuple(keep))

    def forget(self) -> None:
        """Begin anew: what follows has nothing to do with what was found so far."""
        self.mistakes.clear()
        self._seen.clear()
        self._blamed.clear()
        self._born.clear()

    def died(self, error: BaseException, engine: "Engine") -> bool:
        """The program ended with this exception; True when it is a placement mistake of its own."""
        with engine.undisturbed():
            scene = scene_of_exception(error, engine.machine.count)
        if scene is None:
            return False
        rule, recognition = recognise(self._rules, scene)
        self._mistake(rule, recognition, scene).count += 1
        return True

    def _diagnose(self, refusal: Refusal, frame: FrameType, engine: "Engine") -> Verdict:
        if len(self._seen) >= MOST_SCENES:
            return next(reversed(self._seen.values()))
        try:
            return self._understand(refusal, frame, engine)
        except Exception as fault:
            if os.environ.get("SAMEDEVICE_DEBUG"):
                raise
            # That CUDA refuses the call is certain whatever goes wrong with explaining it.
            engine.session.note(
                f"a mismatch could not be explained ({type(fault).__name__}: {fault}); please report this"
            )
            scene = _bare_scene(refusal, frame, engine.machine.count)
            rule, recognition = recognise(self._rules[-1:], scene)
            found = Mistake(diagnostic_of(rule, recognition, scene), ())
            return Verdict(self.mistakes.setdefault((rule.name, _line(scene.raised)), found), None, False)

    def _understand(self, refusal: Refusal, frame: FrameType, engine: "Engine") -> Verdict:
        builder = SceneBuilder(refusal, frame, engine.session, engine.machine.count, self._blamed)
        scene = builder.build()
        rule, recognition = recognise(self._rules, scene)
        mistake = self._mistake(rule, recognition, scene, Surroundings(builder.users).names)
        culprit = scene.culprit
        if culprit is not None and culprit.provenance and engine.on_mismatch == "report":
            # The program goes on: what it meets next comes from another mistake.
            self._blamed.add(culprit.provenance[-1].order)
        relocate = culprit is not None and culprit.holder is Holder.OPTIMIZER_STATE
        return Verdict(mistake, _where_to(scene), relocate)

    def _mistake(
        self, rule: Rule, recognition: Recognition, scene: Scene, names: Names | None = None
    ) -> Mistake:
        """The mistake with this cause, a new one if it was not met before."""
        own = recognition.cause
        cause = (rule.name, own if own is not None else _line(recognition.location))
        mistake = self.mistakes.get(cause) or self._told(recognition, scene)
        if mistake is None:
            fixes = fixes_of(rule, recognition, scene, Sites(START, names, self.editable))
            diagnostic = diagnostic_of(rule, recognition, scene)
            if fixes:
                diagnostic = replace(diagnostic, fix=fixes[0])
            mistake = self.mistakes[cause] = Mistake(diagnostic, fixes)
            culprit = scene.culprit
            if culprit is not None and culprit.born is not None and culprit.born.location is not None:
                self._born.setdefault((culprit.born.location, culprit.device), mistake)
        return mistake

    def _told(self, recognition: Recognition, scene: Scene) -> Mistake | None:
        """The mistake that was told already where another rule would now blame a birth for it.

        The tensors that one call makes are out of place for one reason. And what a package makes in
        the very call that is refused, on a device that it asks somebody for, follows the stray.
        """
        born = None if scene.culprit is None else scene.culprit.born
        if scene.culprit is None or born is None or recognition.location != born.location:
            return None
        told = self._born.get((born.location, scene.culprit.device))
        if told is None and born.package is not None and born.explicit_device:
            for mistake in self.mistakes.values():
                raised = mistake.diagnostic.raised
                if raised is not None and raised.location == born.location:
                    return mistake
        return told

    def fixes(self) -> tuple[tuple[Fix, ...], ...]:
        """For each of the diagnostics the edits that may take it out, the best first."""
        return tuple(mistake.fixes for mistake in self.mistakes.values())

    def diagnostics(self) -> list[Diagnostic]:
        """Every mistake once, in the order in which they were met."""
        found = []
        for mistake in self.mistakes.values():
            raised = mistake.diagnostic.raised
            assert raised is not None
            found.append(
                replace(mistake.diagnostic, count=mistake.count, raised=replace(raised, count=mistake.count))
            )
        return found


def fixes_of(rule: Rule, found: Recognition, scene: Scene, sites: Sites) -> tuple[Fix, ...]:
    """The edits that may take a mistake out, each once, the best first."""
    fixes = [] if found.fix is None else [found.fix]
    try:
        for fix in rule.repairs(scene, found, sites):
            if all(fix.edits != known.edits for known in fixes):
                fixes.append(fix)
            if len(fixes) >= MOST_FIXES:
                break
    except Exception:
        # The program's own objects are looked at; what they raise must not cost the finding.
        pass
    return tuple(fixes)


def _users(path: str) -> bool:
    """Whether a file is the user's own."""
    return kind_of(path) == USER


def _bare_scene(refusal: Refusal, frame: FrameType, gpus: int) -> Scene:
    """Where and in which words CUDA refuses the call, and nothing else."""
    users = user_frames(frame)
    at = users[-1] if users else frame
    return Scene(
        kind=Kind.OPERANDS,
        operator=at.f_code.co_name,
        exception=refusal.exception.__name__,
        message=refusal.message,
        raised=Location(at.f_code.co_filename, at.f_lineno),
        gpus=gpus,
    )


def _where_to(scene: Scene) -> int | None:
    """The device of the call's result once the stray is taken to be in place."""
    if scene.kind not in (Kind.OPERANDS, Kind.INDEX) or scene.wanted is None:
        return None
    name, _, index = scene.wanted.partition(":")
    return int(index or 0) if name == "cuda" else CPU


def recognise(rules: list[Rule], scene: Scene) -> tuple[Rule, Recognition]:
    """The first rule that knows the scene; the last one knows all."""
    for rule in rules:
        found = rule.recognise(scene)
        if found is not None:
            return rule, found
    raise AssertionError("no rule recognised the mismatch, not even the general one")


def diagnostic_of(rule: Rule, recognition: Recognition, scene: Scene) -> Diagnostic:
    """The record of a recognised scene."""
    return Diagnostic(
        rule=rule.name,
        severity=rule.severity,
        confidence=recognition.confidence,
        message=recognition.message,
        location=recognition.location,
        raised=Raised(scene.raised, scene.exception, scene.message),
        tensors=tuple(_fact(o, i == scene.stray) for i, o in enumerate(scene.operands)),
        evidence=recognition.evidence,
        help=recognition.help,
        lesson=rule.lesson or None,
        suggestion=recognition.suggestion,
        fix=recognition.fix,
        notes=recognition.notes,
    )


def _fact(operand: Operand, at_fault: bool) -> TensorFact:
    born = _made_at(operand)
    return TensorFact(
        expression=operand.shown,
        device=operand.device,
        owner=operand.owner,
        shape=operand.shape,
        dtype=operand.dtype,
        born=None if born is None else born.location,
        at_fault=at_fault,
    )


def _made_at(operand: Operand) -> Step | None:
    """The birth of the tensor itself where something keeps it, else of what it goes back to."""
    if operand.holder in (Holder.ATTRIBUTE, Holder.OPTIMIZER_STATE):
        own = [s for s in operand.provenance if s.action is not Action.MOVED and s.location is not None]
        if own:
            return own[-1]
    return operand.born


def _line(location: Location) -> tuple[str, int]:
    return location.path, location.line


def _signature(refusal: Refusal, frame: FrameType) -> Key:
    """What makes two mismatches the same without a look at the program: where, which rule, which devices."""
    places: list[tuple[CodeType, int]] = []
    at: FrameType | None = frame
    while at is not None and len(places) < 10:
        if kind_of(at.f_code.co_filename) != SKIP:
            places.append((at.f_code, at.f_lasti))
        at = at.f_back
    operands = []
    for _, tensor, device in refusal.operands[:8]:
        tag = tag_of(tensor)
        birth = None if tag is None else tag.birth
        operands.append((device, None if birth is None else (birth.place.code, birth.place.lasti)))
    return refusal.family, tuple(places), tuple(operands), refusal.blamed
