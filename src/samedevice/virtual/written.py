"""What the user wrote for each operand of a failing call."""

import ast
import re
from types import FrameType, ModuleType
from typing import Any

from samedevice.model.scene import Holder
from samedevice.program.frames import text_of
from samedevice.program.values import MISSING, evaluate_in, is_module, is_tensor
from samedevice.virtual.holdings import Holdings
from samedevice.virtual.steps import spot_of_place
from samedevice.virtual.tags import Tag, tag_of


class WrittenCall:
    """The failing call as it stands in the source, with the values that its parts have."""

    def __init__(self, holdings: Holdings, call: ast.AST | None, frame: FrameType | None) -> None:
        self.holdings = holdings
        self.call = call
        self.frame = frame
        self.written = self._written()

    def _written(self) -> list[tuple[ast.expr, Any]]:
        """Subexpressions of the running call whose values are known, with them, outermost first."""
        if self.call is None or self.frame is None:
            return []
        found: list[tuple[ast.expr, Any]] = []
        for node in ast.walk(self.call):
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                value = evaluate_in(node, self.frame)
                if is_tensor(value) or is_module(value):
                    found.append((node, value))
        return found

    def expression(self, tensor: Any, tag: Tag | None, number: int, count: int) -> str | None:
        """The source text of the operand at the failing call."""
        if self.frame is None or self.call is None:
            return None
        filename = self.frame.f_code.co_filename
        seat = next(iter(self.holdings.seats_of(tag)), None)
        if seat is not None and seat.chain()[0].link is Holder.TEMPORARY:
            return None  # the weight of a module without a name
        for node, value in self.written:
            if value is tensor:
                return text_of(self._around(node), filename)
        for node, value in self.written:
            if is_tensor(value) and tag is not None and tag_of(value) is tag:
                return text_of(self._around(node), filename)
        for node, value in self.written:
            if is_module(value):
                for name, inner in (*value.named_parameters(), *value.named_buffers()):
                    if inner is tensor or (tag is not None and tag_of(inner) is tag):
                        return text_of(node, filename) + re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", f".{name}")
        return (
            self._born_here(tag, filename)
            or self._by_position(number, count, filename)
            or self._by_argument(number, count, filename)
        )

    def _born_here(self, tag: Tag | None, filename: str) -> str | None:
        """The part of the failing call that made the operand."""
        birth = None if tag is None else tag.birth
        if (
            birth is None
            or self.frame is None
            or self.call is None
            or birth.place.code is not self.frame.f_code
        ):
            return None
        spot = spot_of_place(birth.place)
        node = None if spot is None else spot.node
        if (
            not isinstance(node, ast.expr)
            or node is self.call
            or not any(n is node for n in ast.walk(self.call))
        ):
            return None
        return text_of(self._around(node), filename)

    def _around(self, node: ast.expr) -> ast.expr:
        """`table` of `table[i].view(-1) + x` is `table[i].view(-1)`: the operand as it stands in the call."""
        call = self.call
        above: ast.AST | None = getattr(node, "parent", None)
        best = node
        while (
            above is not None
            and above is not call
            and isinstance(above, (ast.Subscript, ast.Attribute, ast.Call))
        ):
            if isinstance(above, ast.Call) and (
                not isinstance(above.func, ast.Attribute) or best is not above.func
            ):
                break
            if isinstance(above, ast.Subscript) and above.value is not best:
                break
            best = above
            above = getattr(above, "parent", None)
        if (
            isinstance(best, ast.Attribute)
            and isinstance(getattr(best, "parent", None), ast.Call)
            and best is not node
        ):
            return node
        return best if above is call or above is None else node

    def _by_position(self, number: int, count: int, filename: str) -> str | None:
        """The operand of a binary operation by its side, when nothing else tells."""
        call = self.call
        sides: list[ast.expr] = []
        if isinstance(call, ast.BinOp):
            sides = [call.left, call.right]
        elif isinstance(call, ast.AugAssign):
            sides = [call.target, call.value]
        elif isinstance(call, ast.Compare) and len(call.comparators) == 1:
            sides = [call.left, call.comparators[0]]
        elif isinstance(call, ast.Subscript):
            sides = [call.value, call.slice]
        if len(sides) == count == 2:
            return text_of(sides[number], filename)
        return None

    def _by_argument(self, number: int, count: int, filename: str) -> str | None:
        """The argument of a function call at the operand's place: `F.cross_entropy(out, y)`."""
        call = self.call
        if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Attribute, ast.Name)):
            return None
        if is_module(evaluate_in(call.func, self.frame)) or len(call.args) < count or count < 2:  # type: ignore[arg-type]
            return None
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        if base is not None and not _is_namespace(evaluate_in(base, self.frame), base):  # type: ignore[arg-type]
            return None
        argument = call.args[number]
        value = evaluate_in(argument, self.frame)  # type: ignore[arg-type]
        return text_of(argument, filename) if value is MISSING or is_tensor(value) else None


def _is_namespace(value: Any, node: ast.expr) -> bool:
    """`F`, `torch`, `nn.functional`: what functions are taken from, not a tensor with methods."""
    return isinstance(value, ModuleType) or (
        value is MISSING and ast.unparse(node).split(".")[0] in ("torch", "nn", "F")
    )
