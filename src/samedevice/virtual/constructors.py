"""Where `torch.Tensor(…)` and its kin made a tensor: constructors that no mode sees, found by reading."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from samedevice.model.scene import Action, Step
from samedevice.program import bindings as b
from samedevice.program.frames import Spot, text_of
from samedevice.program.origins import Where, trace_value
from samedevice.program.values import evaluate, evaluate_in, is_tensor
from samedevice.virtual.holdings import Holdings, keeping
from samedevice.virtual.provenance import Birth
from samedevice.virtual.steps import spot_of_place, step_of_expression
from samedevice.virtual.tags import device_name, tag_of

#: the classes whose call makes a tensor, always on the CPU unless they are told another device
CONSTRUCTORS: Final = frozenset(
    "Tensor FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor CharTensor"
    " ByteTensor BoolTensor".split()
)


class Constructors:
    """Reads how tensors without a recorded birth came to be; `call` is the failing call, `frame` its frame."""

    def __init__(self, holdings: Holdings, call: ast.AST | None, frame: FrameType | None) -> None:
        self.holdings = holdings
        self.call = call
        self.frame = frame

    def of_operand(self, expression: str | None, device: int) -> Step | None:
        """The construction of an operand that has no birth, as it is written in the failing call."""
        if self.frame is None or self.call is None or expression is None:
            return None
        filename = self.frame.f_code.co_filename
        for node in ast.walk(self.call):
            if isinstance(node, ast.expr) and text_of(node, filename) == expression:
                return self._construction(node, filename, self.frame, device)
        return None

    def of_derived(self, birth: Birth) -> Step | None:
        """The construction of what a tensor was computed from, when nothing with a birth took part."""
        spot = spot_of_place(birth.place)
        node = None if spot is None else spot.node
        if spot is None or not isinstance(node, ast.expr):
            return None
        frame = self.holdings.live(spot.code)
        found = list(self._constructions(node, spot, frame, birth.device))
        return found[0] if found else None

    def _constructions(
        self, node: ast.expr, spot: Spot, frame: FrameType | None, device: int
    ) -> Iterator[Step]:
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and _constructs(part):
                yield _step(part, spot.filename, device)
            elif isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Load):
                if frame is not None and not _without_birth(evaluate_in(part, frame)):
                    continue
                step = self._construction(part, spot.filename, frame, device)
                if step is not None:
                    yield step

    def _construction(
        self, node: ast.expr, filename: str, frame: FrameType | None, device: int
    ) -> Step | None:
        """The constructor's call behind an expression: itself, or what its name or attribute was set to."""
        while isinstance(node, (ast.Subscript, ast.Starred)):
            node = node.value
        if isinstance(node, ast.Attribute):
            return self._attribute(node, frame, device)
        value: ast.expr | None = node
        if isinstance(node, ast.Name):
            callers = () if frame is None else self.holdings.callers(frame)
            binding = trace_value(node, Where(filename, callers))
            value = None if binding is None else binding.value
            filename = filename if binding is None else binding.filename
        return _first(value, filename, device)

    def _attribute(self, node: ast.Attribute, frame: FrameType | None, device: int) -> Step | None:
        if frame is None:
            return None
        host = evaluate(node.value, frame.f_locals, frame.f_globals)
        kept: b.Binding | None = keeping(type(host), node.attr, 0)
        return None if kept is None else _first(kept.value, kept.filename, device)


def is_unknown(birth: Birth | None) -> bool:
    """The tensor was seen for the first time when it was used."""
    return birth is None or (birth.action is Action.RECEIVED and spot_of_place(birth.place) is None)


def _without_birth(value: Any) -> bool:
    if not is_tensor(value):
        return False
    tag = tag_of(value)
    return is_unknown(None if tag is None else tag.birth)


def _first(value: ast.expr | None, filename: str, device: int) -> Step | None:
    """The first constructor's call within an expression."""
    for part in () if value is None else ast.walk(value):
        if isinstance(part, ast.Call) and _constructs(part):
            return _step(part, filename, device)
    return None


def _constructs(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in CONSTRUCTORS


def _step(call: ast.Call, filename: str, device: int) -> Step:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    step = step_of_expression(call, filename, Action.CREATED, f"torch.{name}")
    return replace(step, device=device_name(device), explicit_device=False)
