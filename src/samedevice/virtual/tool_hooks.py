"""Which hooks on modules have to do with a mismatch: those of offloading tools, and torch's own kind."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any, Final

from samedevice.model.scene import Action, Holder, Operand, Step
from samedevice.model.tool_hook import Part, ToolHook
from samedevice.program import bindings as b
from samedevice.program.files import PACKAGE, USER, kind_of, package_of
from samedevice.program.frames import tree_of
from samedevice.program.owners import Seat
from samedevice.program.values import instance_dict
from samedevice.virtual.holdings import Holdings
from samedevice.virtual.provenance import Birth, Happened, ModuleMoved
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.registrations import EVENT
from samedevice.virtual.steps import alive, step_of_birth, step_of_event, step_of_expression
from samedevice.virtual.tags import META, device_index, device_name, tag_of

#: what a program calls to have such hooks hung on its model
ATTACHING: Final = frozenset(
    {
        "cpu_offload",
        "cpu_offload_with_hook",
        "disk_offload",
        "dispatch_model",
        "enable_model_cpu_offload",
        "enable_sequential_cpu_offload",
        "load_checkpoint_and_dispatch",
    }
)
#: registries of torch's own hooks that may replace what goes in or comes out
REGISTRIES: Final = ("_forward_hooks", "_forward_pre_hooks")


class ToolHooks:
    """Answers, for one refusal, which hook belongs to its story."""

    def __init__(self, refusal: Refusal, holdings: Holdings, inner: FrameType) -> None:
        self.refusal = refusal
        self.holdings = holdings
        self.inner = inner

    def find(self, operands: tuple[Operand, ...]) -> ToolHook | None:
        """The hook that a mismatch goes back to, None when there is none."""
        for i, (_, tensor, device) in enumerate(self.refusal.operands[: len(operands)]):
            found = self._of_weight(tensor, device)
            if found is not None:
                return replace(found, operand=i)
        return self._inside() or self._that_moved() or self._that_gave_back()

    # -- hooks that look after weights ---------------------------------------------------------------

    def _of_weight(self, tensor: Any, device: int) -> ToolHook | None:
        managed = [
            (seat, *found) for seat in self._weights(tensor) if (found := self._manager(seat)) is not None
        ]
        if not managed:
            return None
        running = [one for one in managed if self._runs(one[1].value)]
        # A weight that modules share belongs, in this call, to the one that runs.
        seat, holder, hook = (running or managed)[0]
        wanted = _name_of_device(hook.execution_device)
        in_place = device_name(device) == wanted
        fact = ToolHook(
            Part.BYPASSED,
            self._path(holder),
            type(hook).__name__,
            _tool_of(hook),
            f"{self._path(seat.parent)}.{seat.key}" if seat.parent is not None else seat.path,
            wanted,
            bool(getattr(hook, "offload", True)) and not in_place,
        )
        if not running:
            others = [d for _, t, d in self.refusal.operands if t is not tensor]
            if (
                device == META
                or fact.offloads
                or (in_place and any(device_name(d) != wanted for d in others))
            ):
                return replace(fact, attached=self._attached())
        if device != META and not in_place:
            moved = self._moved(holder.value, device)
            if moved is not None:
                spread = "hf_device_map" in instance_dict(alive(moved.module))
                return replace(
                    fact,
                    part=Part.OUTLIVED,
                    attached=self._attached(),
                    moved=step_of_event(moved),
                    spread=spread,
                )
        return None

    def _weights(self, tensor: Any) -> list[Seat]:
        """The parameters or buffers that an operand is, or is a view of."""
        tag = tag_of(tensor)
        seats = self.holdings.seats_of(tag) or [s for s in self.holdings.census.tensors if s.value is tensor]
        if tag is not None and tag.device == META and tag.birth is not None:
            # What is computed from a weight without data has none either.
            for root in tag.birth.roots:
                seats = [*seats, *self.holdings.seats_of_birth(root)]
        return [s for s in seats if s.link in (Holder.PARAMETER, Holder.BUFFER)]

    def _path(self, seat: Seat) -> str:
        """The module as a part of the whole that holds it: "model.body[0]" rather than a loop's variable."""
        parent = self.holdings.census.registered.get(id(seat.value))
        if parent is None:
            return seat.path
        modules = instance_dict(parent.value).get("_modules", {})
        name = next((name for name, child in modules.items() if child is seat.value), None)
        numbered = type(parent.value).__name__ in ("Sequential", "ModuleList")
        above = self._path(parent)
        if name is None:
            return seat.path
        return f"{above}[{name}]" if numbered and name.isdigit() else f"{above}.{name}"

    def _manager(self, seat: Seat) -> tuple[Seat, Any] | None:
        """The module whose hook looks after the weight, and the hook."""
        at = seat.parent
        while at is not None and id(at.value) in self.holdings.modules:
            for hook in _flat(instance_dict(at.value).get("_hf_hook")):
                whole = getattr(hook, "place_submodules", not hasattr(hook, "offload"))
                if getattr(hook, "execution_device", None) is not None and (whole or at is seat.parent):
                    return at, hook
            at = self.holdings.census.registered.get(id(at.value))
        return None

    def _runs(self, module: Any) -> bool:
        """Whether a call that goes through the hook is under way."""
        forward = instance_dict(module).get("forward")
        code = getattr(getattr(forward, "func", forward), "__code__", None)
        frame: FrameType | None = self.inner
        while frame is not None:
            if frame.f_code is code and any(value is module for value in frame.f_locals.values()):
                return True
            frame = frame.f_back
        return False

    def _moved(self, module: Any, device: int) -> ModuleMoved | None:
        """The program's own last move of the module, or what contains it, to where the weight is."""
        moves = [
            move
            for move in self.holdings.moves_of(module)
            if move.device == device and (move.place.package is None or _on_the_whole(move))
        ]
        return moves[-1] if moves else None

    def _attached(self) -> Step | None:
        """The one call of the program that hangs such hooks, None when there are several."""
        running = [f.f_code.co_filename for f in self.holdings.frames]
        files = list(dict.fromkeys([*running, *b.user_files()]))
        calls = b.calls_of(set(ATTACHING), [f for f in files if kind_of(f) == USER])
        calls += [
            (filename, call)
            for filename, call in b.calls_of({"from_pretrained"}, [f for f in files if kind_of(f) == USER])
            if any(k.arg == "device_map" for k in call.keywords)
        ]
        if len(calls) != 1:
            return None
        filename, call = calls[0]
        return step_of_expression(call, filename, Action.COPIED, "attach")

    def _that_gave_back(self) -> ToolHook | None:
        """A hook that brings a model's outputs back to the device of the inputs."""
        for i, (_, tensor, device) in enumerate(self.refusal.operands):
            tag = tag_of(tensor)
            for moved in _moves_in(None if tag is None else tag.birth, device):
                if moved.place.package is None or moved.place.code is None:
                    continue
                for seat in self.holdings.modules.values():
                    if self._runs(seat.value):
                        continue  # it has given nothing back yet
                    for hook in _flat(instance_dict(seat.value).get("_hf_hook")):
                        if (
                            getattr(hook, "io_same_device", False)
                            and _name_of_device(hook.input_device) == device_name(device)
                            and _tool_of(hook) == moved.place.package
                        ):
                            return ToolHook(
                                Part.GAVE_BACK,
                                self._path(seat),
                                type(hook).__name__,
                                moved.place.package,
                                device=device_name(device),
                                moved=step_of_birth(moved),
                                operand=i,
                            )
        return None

    # -- torch's own hooks -----------------------------------------------------------------------------

    def _that_moved(self) -> ToolHook | None:
        """The hook that replaced an output or an input by a copy on another device."""
        for i, (_, tensor, device) in enumerate(self.refusal.operands):
            tag = tag_of(tensor)
            birth = None if tag is None else tag.birth
            for moved in _moves_in(birth, device):
                code = moved.place.inner or moved.place.code
                found = None if code is None else self._registered(code)
                if code is None or self._aligns(code, device):
                    continue
                if found is not None and _gives_back(found[2]) and not self._is_running(found[2]):
                    seat, number, function = found
                    return ToolHook(
                        Part.MOVED,
                        self._path(seat),
                        function.co_name,
                        package_of(function.co_filename),
                        device=device_name(device),
                        attached=self._registration(number),
                        moved=step_of_birth(moved),
                        operand=i,
                    )
        return None

    def _is_running(self, hook: CodeType) -> bool:
        """Whether the call is refused inside the hook, which has then put nothing in the place of anything."""
        frame: FrameType | None = self.inner
        while frame is not None:
            if frame.f_code is hook:
                return True
            frame = frame.f_back
        return False

    def _inside(self) -> ToolHook | None:
        """A hook of an installed package in whose own code the call is refused."""
        frame: FrameType | None = self.inner
        while frame is not None and kind_of(frame.f_code.co_filename) != USER:
            if kind_of(frame.f_code.co_filename) == PACKAGE and frame.f_back is not None:
                module = frame.f_back.f_locals.get("self")
                seat = self.holdings.modules.get(id(module))
                for number, code in _hooks_of(module):
                    if code is frame.f_code and frame.f_back.f_code.co_name in ("_call_impl", "inner"):
                        return ToolHook(
                            Part.INSIDE,
                            type(module).__name__ if seat is None else self._path(seat),
                            code.co_name,
                            package_of(code.co_filename),
                            attached=self._registration(number),
                        )
            frame = frame.f_back
        return None

    def _registered(self, code: CodeType) -> tuple[Seat, int, CodeType] | None:
        """(module, number of the registration, hook) of the registered hook that `code` is, or is a part of."""
        for seat in self.holdings.modules.values():
            for number, hook in _hooks_of(seat.value):
                if code is hook or (code.co_filename == hook.co_filename and _within(code, hook)):
                    return seat, number, hook
        return None

    def _aligns(self, code: CodeType, device: int) -> bool:
        """Whether a hook with this code hangs on a module that is on that device: it brings things together."""
        for seat in self.holdings.modules.values():
            hooks = [hook for _, hook in _hooks_of(seat.value)]
            if any(code is h or (code.co_filename == h.co_filename and _within(code, h)) for h in hooks):
                own = instance_dict(seat.value).get("_parameters", {}).values()
                parts = [p for p in own if p is not None] or list(seat.value.parameters())
                if parts and all(device_index(p) == device for p in parts):
                    return True
        return False

    def _registration(self, number: int) -> Step | None:
        for event in self.holdings.session.events:
            if isinstance(event, Happened) and event.what == EVENT and event.detail["number"] == number:
                place = event.place.code
                return None if place is None else step_of_event(event)
        return None


def _flat(hook: Any) -> Iterator[Any]:
    """The hooks of a chain of hooks."""
    if hook is None:
        return
    inner = getattr(hook, "hooks", None)
    if isinstance(inner, (list, tuple)):
        for one in inner:
            yield from _flat(one)
    else:
        yield hook


def _tool_of(hook: Any) -> str | None:
    """The package that the hook's class comes from."""
    name = type(hook).__module__.partition(".")[0]
    return None if name == "__main__" else name


def _name_of_device(spec: Any) -> str | None:
    """As PyTorch writes it; a bare index and a bare "cuda" name GPUs."""
    if isinstance(spec, int):
        return device_name(spec)
    text = str(spec)
    return "cuda:0" if text == "cuda" else text


def _on_the_whole(moved: ModuleMoved) -> bool:
    """A move that went through the tool's own wrapper around `model.to`."""
    return "hf_device_map" in instance_dict(alive(moved.module))


def _moves_in(birth: Birth | None, device: int) -> Iterator[Birth]:
    """The moves to `device` that a tensor's data went through last."""
    if birth is None:
        return
    for root in birth.roots:
        if root.action is Action.MOVED and root.device == device:
            yield root


def _hooks_of(module: Any) -> Iterator[tuple[int, CodeType]]:
    """(number of the registration, code) of the hooks on a module."""
    own = instance_dict(module)
    for registry in REGISTRIES:
        for number, hook in dict(own.get(registry) or {}).items():
            code = _code_of(hook)
            if code is not None:
                yield number, code


def _code_of(hook: Any) -> CodeType | None:
    while isinstance(hook, functools.partial):
        hook = hook.func
    hook = getattr(hook, "__func__", hook)
    if not hasattr(hook, "__code__"):
        hook = type(hook).__call__ if callable(hook) else None
    code = getattr(hook, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _within(code: CodeType, outer: CodeType) -> bool:
    lines = [line for _, _, line in outer.co_lines() if line is not None]
    return bool(lines) and min(lines) < code.co_firstlineno <= max(lines)


def _gives_back(code: CodeType) -> bool:
    """Whether a hook returns something, which then takes the place of the output."""
    if code.co_name == "<lambda>":
        return True
    tree = tree_of(code.co_filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node))
    return False
