"""A `Scene` from a refusal: everything that the running program can tell about one mismatch."""

import ast
from collections import Counter
from collections.abc import Set
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from samedevice.model.diagnostic import Location
from samedevice.model.scene import Action, Holder, Kind, ModuleFact, Operand, Scene
from samedevice.program.anchors import anchor_in
from samedevice.program.files import USER, kind_of, shown
from samedevice.program.frames import (
    Spot,
    location_of,
    operator_of,
    spot_of,
    stack,
    statement_of,
)
from samedevice.program.values import is_module, is_tensor
from samedevice.virtual.holdings import Holdings, all_on
from samedevice.virtual.operands import OperandReader
from samedevice.virtual.particulars import Particulars, all_frames
from samedevice.virtual.provenance import Session
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.steps import (
    frames_of_stack,
)
from samedevice.virtual.tags import CPU, device_index, device_name, tag_of

#: the device rules' families that are not about operands of one call
KINDS: Final = {
    "index": Kind.INDEX,
    "gradient": Kind.GRADIENT,
    "numpy": Kind.HOST_ONLY,
    "lengths": Kind.HOST_ONLY,
    "host-only": Kind.HOST_ONLY,
    "tensor-split": Kind.HOST_ONLY,
    "pin": Kind.PIN,
    "pinning": Kind.PIN,
    "generator": Kind.GENERATOR,
    "meta": Kind.META,
    "data-parallel": Kind.DATA_PARALLEL,
    "collective": Kind.COLLECTIVE,
    "load": Kind.LOAD,
    "fork": Kind.FORK,
    "dtype": Kind.DTYPE,
    "kernel-on-other-gpu": Kind.KERNEL,
}


def kind_of_refusal(refusal: Refusal) -> Kind:
    """What PyTorch refuses, by the rule that refused."""
    if refusal.family == "host-only" and any(device == CPU for _, _, device in refusal.operands):
        return Kind.OPERANDS  # an operator without a GPU version, given a mixture
    return KINDS.get(refusal.family, Kind.OPERANDS)


class SceneBuilder:
    """Builds the scene of one refusal while everything is alive."""

    def __init__(
        self,
        refusal: Refusal,
        frame: FrameType,
        session: Session,
        gpus: int,
        blamed: Set[int] = frozenset(),
    ) -> None:
        self.blamed = blamed
        self.refusal = refusal
        self.session = session
        self.gpus = gpus
        self.stack = stack(frame)
        self.inner = frame
        self.users = [f for f in self.stack if kind_of(f.f_code.co_filename) == USER]
        self.frame = (self.users or self.stack or [frame])[-1]
        self.spot = spot_of(self.frame)
        self.kind = kind_of_refusal(refusal)
        self.holdings = Holdings(frame, session)

    def build(self) -> Scene:
        """The scene."""
        refusal = self.refusal
        reader = OperandReader(self.holdings, self.spot.node, self.frame, self.blamed)
        count = len(refusal.operands)
        operands = tuple(
            reader.read(name, tensor, device, i, count)
            for i, (name, tensor, device) in enumerate(refusal.operands)
        )
        operands = _without_repeats(operands)
        stray, wanted = self._blame(operands)
        scene = Scene(
            kind=self.kind,
            operator=self._operator(),
            exception=refusal.exception.__name__,
            message=refusal.message,
            raised=self._raised(),
            operands=operands,
            stray=stray,
            wanted=wanted,
            frames=frames_of_stack(self.stack),
            modules=tuple(self._modules(operands)),
            in_backward=self._in_backward(),
            gpus=self.gpus,
            extra=Particulars(
                refusal,
                self.kind,
                self.holdings,
                self.session,
                self.inner,
                self.users,
                self.frame,
                self.spot,
            ).gather(operands),
        )
        return replace(scene, anchor=self._anchor(scene))

    # -- the call ------------------------------------------------------------------------------------

    def _raised(self) -> Location:
        node = self.spot.node
        if isinstance(node, (ast.stmt, ast.expr)):
            statement = statement_of(node)
            if isinstance(statement, (ast.For, ast.AsyncFor)) and isinstance(node, ast.stmt):
                return location_of(statement, self.spot.filename)
            found = location_of(node, self.spot.filename)
            if found.line == self.spot.line or isinstance(node, ast.Call):
                # A traceback names the line on which the call begins.
                return found
        return Location(shown(self.spot.filename), self.spot.line)

    def _operator(self) -> str:
        """What was called, in the words of the user's line."""
        return operator_of(self.spot.node, self.spot.filename) or self.refusal.family

    def _in_backward(self) -> bool:
        return any(f.f_code.co_name == "_engine_run_backward" for f in all_frames(self.inner))

    # -- who is out of place ------------------------------------------------------------------------

    def _blame(self, operands: tuple[Operand, ...]) -> tuple[int | None, str | None]:
        """(the operand out of place, where it belongs)."""
        common = device_name(self.refusal.common)
        if not operands:
            return None, common if self.kind is Kind.COLLECTIVE else None
        if self.kind in (Kind.HOST_ONLY, Kind.PIN):
            if self.refusal.blamed is not None:
                return self.refusal.blamed, "cpu"
            return _first(operands, lambda o: o.device not in ("cpu", "meta")), "cpu"
        if self.kind is Kind.META:
            return _first(operands, lambda o: o.device == "meta"), common
        if self.kind is Kind.GRADIENT:
            at = self.refusal.blamed
            return (len(operands) - 1 if at is None else at), common
        if self.kind is Kind.KERNEL or self.refusal.family == "rng-state":
            return self.refusal.blamed, common
        if self.kind is Kind.DTYPE:
            return None, None
        if self.kind is Kind.COLLECTIVE:
            # Rank by rank it is known which GPU is whose, whatever the operands are on.
            at = self.refusal.blamed
            return (_first(operands, lambda o: o.device != common) if at is None else at), common
        devices = [o.device for o in operands]
        gpus = [d for d in dict.fromkeys(devices) if d.startswith("cuda")]
        if "meta" in devices:
            return devices.index("meta"), gpus[0] if gpus else "cpu"
        if len(gpus) == 1:
            strays = [i for i, o in enumerate(operands) if o.device == "cpu" and self._counts(o)]
            if operands[0].device != "cpu":
                # What is on a GPU takes indices from the CPU: the value that is put there is wrong.
                strays = [i for i in strays if operands[i].name != "indices"] or strays
            return _worst(operands, strays), gpus[0]
        if len(gpus) > 1:
            return self._blame_between_gpus(operands, gpus)
        return None, None

    def _counts(self, operand: Operand) -> bool:
        """Whether the operand matters to the refusal: a CPU scalar may usually take part."""
        if not operand.zero_dim:
            return True
        others = [o for o in self.refusal.operands if device_name(o[2]) == operand.device]
        return (
            self.refusal.family != "tensor-iterator"
            or len(others) == 1
            or all(o[1].dim() == 0 for o in others)
        )

    def _blame_between_gpus(
        self, operands: tuple[Operand, ...], gpus: list[str]
    ) -> tuple[int | None, str | None]:
        """Of operands on several GPUs: who was put somewhere by hand follows who was computed."""
        cpu = [i for i, o in enumerate(operands) if o.device == "cpu" and not o.zero_dim]
        home = _home(operands, gpus, self._part())
        if cpu:
            return _worst(operands, cpu), home
        strays = [i for i, o in enumerate(operands) if o.device != home]
        return _worst(operands, strays), home

    def _part(self) -> str | None:
        """The device of the module whose method makes the call, when all that it has is on one."""
        module = None if self.frame is None else self.frame.f_locals.get("self")
        return all_on(module) if is_module(module) else None

    # -- modules --------------------------------------------------------------------------------------

    def _modules(self, operands: tuple[Operand, ...]) -> list[ModuleFact]:
        found = {o.origin.module.owner: o.origin.module for o in operands if o.origin.module is not None}
        return list(found.values())

    # -- kind-specific facts ----------------------------------------------------------------------------

    # -- what is right already ---------------------------------------------------------------------------

    def _anchor(self, scene: Scene) -> str | None:
        """An expression at the mistake's line that is in the right place already."""
        if scene.stray is None or scene.wanted is None:
            return None
        origin = scene.operands[scene.stray].origin
        born = origin.born
        if born is None or born.location is None or scene.wanted == "cpu":
            return None
        birth_spot = self._birth_spot(scene.stray, origin)
        live = None if birth_spot is None else self.holdings.live(birth_spot.code)

        def device(value: Any) -> str | None:
            return device_name(device_index(value)) if is_tensor(value) else None

        if live is not None:
            return anchor_in(spot_of(live), live, scene.wanted, device)
        return None if birth_spot is None else anchor_in(birth_spot, None, scene.wanted, device)

    def _birth_spot(self, stray: int, origin: Operand) -> Spot | None:
        from samedevice.virtual.steps import spot_of_place

        tag = tag_of(self.refusal.operands[min(stray, len(self.refusal.operands) - 1)][1])
        birth = None if tag is None else tag.birth
        while birth is not None:
            born = origin.born
            if born is not None and birth.seq == born.order:
                return spot_of_place(birth.place)
            candidates = [p for p in birth.parents if born is None or p.seq >= born.order]
            exact = [p for p in candidates if born is not None and p.seq == born.order]
            birth = next(iter(exact or candidates), None)
        return None


def _home(operands: tuple[Operand, ...], gpus: list[str], part: str | None) -> str:
    """The GPU where the call belongs: a parameter's, else where most computed operands are, else the first.

    `part`: where the module is that makes the call; it decides between operands that were all computed.
    """
    for operand in operands:
        if operand.holder in (Holder.PARAMETER, Holder.BUFFER) and len(operand.shared) < 2:
            return operand.device
    computed = [
        o.device
        for o in operands
        if o.provenance and o.provenance[-1].action is Action.DERIVED and not _is_kept(o)
    ]
    if len(set(computed)) == 1:
        return computed[0]
    if part is not None and part in computed and len(computed) == len(operands):
        return part
    placed = [o.device for o in operands if o.placed is not None]
    if len(set(placed)) == 1 and len(gpus) == 2:
        return next(g for g in gpus if g != placed[0])
    return Counter(o.device for o in operands if o.device in gpus).most_common(1)[0][0]


def _is_kept(operand: Operand) -> bool:
    """Whether it may be of an earlier call: an object or a global container has it."""
    in_global = operand.holder is Holder.CONTAINER and operand.in_global
    return operand.holder is Holder.ATTRIBUTE or in_global


def _worst(operands: tuple[Operand, ...], strays: list[int]) -> int | None:
    """Of several strays the one that tells most about the mistake."""

    def key(i: int) -> int:
        origin = operands[i].origin
        if operands[i].discarded is not None or origin.discarded is not None:
            return 0
        if origin.holder is Holder.OPTIMIZER_STATE:
            return 1
        if origin.holder is Holder.PARAMETER:
            return 2
        if origin.holder in (Holder.BUFFER, Holder.ATTRIBUTE):
            return 3
        return 4

    return min(strays, key=key) if strays else None


def _first(operands: tuple[Operand, ...], test: Any) -> int | None:
    return next((i for i, o in enumerate(operands) if test(o)), None)


def _without_repeats(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """A weight that appears twice (a view and its base) is shown once; order is kept."""
    if len(operands) <= 8:
        return operands
    kept = list(operands[:8])
    devices = {o.device for o in kept}
    kept += [o for o in operands[8:] if o.device not in devices][:1]
    return tuple(kept)
