"""What the running program has in the right place already, by the names it has for it."""

from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

from samedevice.program.anchors import is_device
from samedevice.program.files import shown
from samedevice.program.values import instance_dict, is_module, is_tensor
from samedevice.virtual.tags import device_index, device_name

#: names looked at in one function
MOST_NAMES = 200


class Surroundings:
    """Answers by file and function; the frames are let go of when the answers are no longer needed."""

    def __init__(self, frames: Iterable[FrameType]) -> None:
        self.frames = list(frames)

    def names(self, path: str, line: int, wanted: str) -> list[tuple[str, str]]:
        """(expression, "device" | "tensor" | "module") of what gives `wanted` in the function at `line`.

        Line 0 is the module itself. A function that is not running has only its module's names.
        """
        found: list[tuple[str, str]] = []
        for frame in reversed(self.frames):
            code = frame.f_code
            if shown(code.co_filename) != path:
                continue
            name = code.co_name
            at_top = name == "<module>"
            if (line == 0) != at_top or (not at_top and code.co_firstlineno != line):
                continue
            found += _in_namespace(frame.f_locals, wanted)
            break
        else:
            found += self._of_owner(path, line, wanted)
        for frame in reversed(self.frames):
            if shown(frame.f_code.co_filename) == path:
                found += [f for f in _in_namespace(frame.f_globals, wanted) if f[1] == "device"]
                break
        return list(dict.fromkeys(found))

    def _of_owner(self, path: str, line: int, wanted: str) -> list[tuple[str, str]]:
        """What `self` has in a method that does not run: of an object that another running method belongs to."""
        for frame in reversed(self.frames):
            owner = frame.f_locals.get("self")
            if owner is None:
                continue
            for code in _methods(owner):
                if code.co_firstlineno == line and shown(code.co_filename) == path:
                    return _in_namespace({"self": owner}, wanted)
        return []


def _methods(value: Any) -> Iterator[CodeType]:
    """The code of the functions of an object's class and its bases."""
    for kind in type(value).__mro__:
        for function in vars(kind).values():
            inner = getattr(function, "__func__", function)
            while hasattr(inner, "__wrapped__"):
                inner = inner.__wrapped__
            code = getattr(inner, "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _in_namespace(names: Any, wanted: str) -> list[tuple[str, str]]:
    devices: list[tuple[str, str]] = []
    tensors: list[tuple[str, str]] = []
    modules: list[tuple[str, str]] = []
    for name, value in list(names.items())[:MOST_NAMES]:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("__"):
            continue
        if is_tensor(value):
            if device_name(device_index(value)) == wanted:
                tensors.append((name, "tensor"))
        elif is_device(value, wanted):
            devices.append((name, "device"))
        else:
            own = instance_dict(value)
            if isinstance(value, type) or type(value).__name__ == "module":
                continue
            for attribute, held in list(own.items())[:MOST_NAMES]:
                # What another object keeps for itself is not for others to name.
                public = attribute.strip("_") if name == "self" else attribute
                if public in ("device", "dev") and is_device(held, wanted):
                    devices.append((f"{name}.{attribute}", "device"))
            if name == "self":
                plain = [a for a, v in list(own.items())[:MOST_NAMES] if is_tensor(v) and _at(v, wanted)]
                tensors += [(f"self.{a}", "tensor") for a in plain[:4]]
            if is_module(value):
                tensors += [(f"{name}.{a}", "tensor") for a in _own_tensors(own, wanted)]
                weights = list(value.parameters())
                if weights and all(_at(p, wanted) for p in weights):
                    modules.append((name, "module"))
                elif weights:
                    modules += [(f"{name}.{child}", "module") for child in _whole_children(own, wanted)]
    devices.sort(key=lambda d: (d[0].lower() != "device", "." in d[0], not d[0].endswith("device")))
    return [*devices, *tensors, *modules]


def _own_tensors(own: dict[str, Any], wanted: str) -> list[str]:
    found = [n for n, p in own.get("_parameters", {}).items() if p is not None and _at(p, wanted)]
    for name, child in own.get("_modules", {}).items():
        weight = instance_dict(child).get("_parameters", {}).get("weight") if child is not None else None
        if weight is not None and name.isidentifier() and _at(weight, wanted):
            found.append(f"{name}.weight")
    return found[:4]


def _whole_children(own: dict[str, Any], wanted: str) -> list[str]:
    """Submodules that are in the right place whole, although their module is not; layers are asked themselves."""
    found: list[str] = []
    for name, child in own.get("_modules", {}).items():
        if child is None or not name.isidentifier():
            continue
        if instance_dict(child).get("_parameters", {}).get("weight") is not None:
            continue
        weights = list(child.parameters())
        if weights and all(_at(p, wanted) for p in weights):
            found.append(name)
    return found[:2]


def _at(tensor: Any, wanted: str) -> bool:
    return device_name(device_index(tensor)) == wanted
