"""What the program itself does not call: functions with unknown arguments, modules on an unknown device.

A library has no main program. Each of its functions and methods is looked at by itself, as if somebody
called it on the machine that matters: the module has been moved to a device, its inputs are there too.
"""

import ast
import re
from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from samedevice.lint import calls, classes, loading, modules
from samedevice.lint.devices import Dev, symbol
from samedevice.lint.run import Exhausted, Frame, Run
from samedevice.lint.state import leaves
from samedevice.lint.values import (
    UNKNOWN,
    Class,
    Device,
    Dict,
    Event,
    Func,
    Instance,
    Module,
    Param,
    Seq,
    Site,
    Tensor,
    Unknown,
    Value,
)
from samedevice.source.edits import Text

#: calls that may begin a mistake: something made on the CPU, a conversion to NumPy
TRIGGER_CALLS = (
    "zeros ones empty full rand randn randint randperm eye arange linspace logspace tensor as_tensor asarray "
    "from_numpy tril_indices triu_indices normal hann_window DataLoader Generator Adagrad deepcopy "
    "pack_padded_sequence np.array np.asarray"
).split()


def looking_back(names: list[str], end: str) -> str:
    """A pattern for what stands before `end`: the last letter first, as nearly all fail there."""
    by_letter: dict[str, list[str]] = {}
    for name in names:
        by_letter.setdefault(name[-1], []).append(f"(?<={name}{end})")
    return "|".join(f"(?<={letter}{end})(?:{'|'.join(ways)})" for letter, ways in by_letter.items())


NAMED = [rf"\b{re.escape(name)}" for name in TRIGGER_CALLS]
#: looks back from each parenthesis: thirty times faster than looking for the names
TRIGGERS = re.compile(
    r"\((?:"
    + looking_back([*NAMED, "Tensor", r"\.numpy", r"\.to", r"\.cuda", r"\.cpu"], r"\(")
    + r"|(?<= \()(?:"
    + looking_back(NAMED, r" \(")
    + "))"
)
#: a move as a statement of its own, which is one of the triggers only then
MOVED_AWAY = re.compile(
    r"[ \t]*[\w.\[\]'\"]+\.(?:to|cuda|cpu)\([^()]*(?:\([^()]*\)[^()]*)*\)[ \t]*(?:#.*)?$", re.MULTILINE
)
#: an attribute that is a plain container, a layer that is built and called at once
CONTAINERS = (
    re.compile(r"self\.\w+\s*(?::[^=\n]*)?=\s*[\[{]"),
    re.compile(r"nn\.[A-Z]\w*\([^\n]*\)\("),
)
#: what is made on such a line is registered, or becomes Python numbers
SETTLED = re.compile(r"Parameter\(|register_buffer\(|\.item\(\)|\.tolist\(\)|^\s*#|>>>")
#: without one of these nothing in a function is known to be elsewhere than on the CPU
ELSEWHERE = re.compile(r"device|cuda|\.to\(|type_as\(|\bnn\.[A-Z]|\.numpy\(")
#: methods that prepare a module, mostly before it is moved
PREPARING = re.compile(
    r"init|reset|load|convert|from_|build|export|fuse|merge|state_dict|example|dummy|repr|post_|prepare|quant|prune|register|"
    r"set_|setup|create|make|_to_|save|dump|plot|draw|log|print|test|check|debug|copy|clone|resize|extend|add_|update_|flops|"
    r"profile|script|trace|configure|dataloader|collate|tokenize|preprocess|transform|__getitem__|__iter__|num_|size|len"
)
#: methods whose arguments are where the module is
FORWARD = frozenset(("forward", "__call__", "training_step", "validation_step", "test_step", "predict_step"))
BUDGET = 3_000
#: expressions in which an assignment can stand: as the target itself, in a tuple, as a call of `setattr`
CARRIERS = (ast.Attribute, ast.Tuple, ast.List, ast.Starred, ast.Call, ast.NamedExpr)
IN_ALL = 40_000
#: uses of a parameter that show it to be a tensor
TENSOR_USES = frozenset(
    "shape size view device dim ndim transpose permute unsqueeze squeeze reshape flatten new_zeros new_ones masked_fill matmul "
    "contiguous chunk numel expand softmax float type_as sigmoid".split()
)


def look_at_the_rest(run: Run, module: Module) -> None:
    """Look at every function and method of the file that nothing has called yet."""
    file = run.file
    lines = trigger_lines(file.text)
    if not lines:
        return
    run.quiet = 0
    lines = sorted({*lines, *calling_lines(file.parsed(), lines, file.text)})
    if "set_default_device" in file.text or "set_default_tensor_type" in file.text:
        run.default = None
    spent = IN_ALL
    run.max_depth = 6
    for statement in file.parsed().body:
        if spent <= 0:
            return
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if id(statement) in run.reached or not touches(lines, statement):
                continue
            if not goes_elsewhere(run, statement):
                continue
            value = defined(run, module, statement.name)
            if isinstance(value, Func) and value.node is statement:
                spent -= guarded(run, partial(function_entry, run, value))
        elif isinstance(statement, ast.ClassDef):
            if not touches(lines, statement):
                continue
            cls = defined(run, module, statement.name)
            if isinstance(cls, Class) and cls.node is statement:
                spent -= class_entry(run, cls, lines)


def defined(run: Run, module: Module, name: str) -> Value | None:
    """What a name of the file is bound to, made now if nobody has asked for it yet."""
    value = module.env.get(name)
    if value is None:
        return None
    run.limit = max(run.limit, BUDGET)
    try:
        return loading.force(run, value, module.env, name)
    except (Exhausted, RecursionError):
        return None


def trigger_lines(text: str) -> list[int]:
    """The lines at which a mistake may begin."""
    lines = []
    line, at = 1, 0
    for found in TRIGGERS.finditer(text):
        offset = found.start()
        is_move = text.endswith((".to", ".cuda", ".cpu"), max(offset - 5, 0), offset)
        start = text.rfind("\n", 0, offset) + 1
        if is_move and not MOVED_AWAY.match(text, start):
            continue
        if SETTLED.search(text, start, text.find("\n", offset)):
            continue
        line += text.count("\n", at, offset)
        at = offset
        lines.append(line)
    more = []
    for pattern in CONTAINERS if "nn." in text else ():
        line, at = 1, 0
        for found in pattern.finditer(text):
            line += text.count("\n", at, found.start())
            at = found.start()
            more.append(line)
    return sorted([*lines, *more]) if more else lines


def calling_lines(tree: ast.Module, lines: list[int], text: str) -> list[int]:
    """The lines that call a function of the file in which a mistake may begin."""
    names = [s.name for s in tree.body if isinstance(s, ast.FunctionDef) and touches(lines, s)]
    if not names or len(names) > 60:
        return []
    offsets = []
    for name in names:
        at = text.find(f"{name}(")
        while at >= 0:
            if not text[max(at - 1, 0) : at].isidentifier():
                offsets.append(at)
            at = text.find(f"{name}(", at + 1)
    found = []
    line, at = 1, 0
    for offset in sorted(offsets):
        line += text.count("\n", at, offset)
        at = offset
        found.append(line)
    return found


def touches(lines: list[int], node: ast.stmt | ast.Lambda) -> bool:
    """Whether one of the lines lies within a statement."""
    index = bisect_left(lines, node.lineno)
    return index < len(lines) and lines[index] <= (node.end_lineno or 0)


def goes_elsewhere(run: Run, node: ast.stmt) -> bool:
    """Whether the text of a statement names anything that may not be on the CPU."""
    starts = Text.of(run.file.text).lines
    begin = starts[node.lineno - 1]
    end = node.end_lineno or node.lineno
    stop = starts[end] if end < len(starts) else len(run.file.text)
    return ELSEWHERE.search(run.file.text, begin, stop) is not None


def guarded(run: Run, look: Callable[[], None], budget: int = BUDGET) -> int:
    """Run one entry from the present state, and undo what it did; what it cost."""
    mark = run.trail.mark()
    default = run.default
    run.limit = budget
    before = len(run.meetings)
    run.entry += 1
    try:
        look()
    except Exhausted:
        pass
    except RecursionError:
        pass
    finally:
        run.trail.rewind(mark)
        run.frames.clear()
        run.active.clear()
        run.default = default
        run.entry -= 1
        run.instances.clear()
    for found in run.meetings[before:]:
        found.entry = "entry"
    return budget - max(run.limit, 0)


def base_frame(run: Run, module: Module) -> Frame:
    """The frame from which entries are called."""
    frame = Frame(module, None, (), None, 0)
    frame.locals = module.env
    return frame


def function_entry(run: Run, func: Func) -> None:
    """Call a function with unknown arguments."""
    frame = base_frame(run, func.module)
    run.shallow = False
    # a decorator that we do not know hides what a call gives, not what the body does
    func.opaque = False
    calls.invoke(run, func, None, *unknown_arguments(run, func, None, frame, False), func.node, frame)


def unknown_arguments(
    run: Run, func: Func, dev: Dev | None, frame: Frame, bound: bool
) -> tuple[list[Value], dict[str, Value]]:
    """Arguments of which only the annotations, and their uses, are known."""
    a = func.node.args
    names = [*a.posonlyargs, *a.args][1 if bound else 0 :]
    args: list[Value] = []
    shown = tensor_names(func) if dev is not None else frozenset()
    for parameter in names:
        args.append(argument(parameter, dev, parameter.arg in shown, frame, func))
    kwargs: dict[str, Value] = {p.arg: argument(p, dev, p.arg in shown, frame, func) for p in a.kwonlyargs}
    return args, kwargs


def argument(parameter: ast.arg, dev: Dev | None, shown: bool, frame: Frame, func: Func) -> Value:
    """One unknown argument."""
    annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    is_tensor = annotation in ("Tensor", "torch.Tensor", "th.Tensor")
    if is_tensor or (shown and not annotation):
        tensor = Tensor(
            dev, None, Event("argument", Site(func.file, parameter, func.name), (), parameter.arg)
        )
        tensor.maybe = not is_tensor
        tensor.likely = True
        return tensor
    return Unknown(parameter.arg)


def tensor_names(func: Func) -> frozenset[str]:
    """Parameters that the function itself uses as tensors."""
    found = set()
    for node in ast.walk(func.node):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in TENSOR_USES:
            found.add(node.value.id)
    return frozenset(found)


def class_entry(run: Run, cls: Class, lines: list[int]) -> int:
    """Look at the methods of a class."""
    if cls.is_a(frozenset({"torch.autograd.Function"})):
        return autograd_entry(run, cls, lines)
    probe = Instance(cls, None, None)
    if not modules.is_module(probe):
        return plain_entry(run, cls, lines) if goes_elsewhere(run, cls.node) else 0
    spent = 0
    init = cls.find("__init__")
    inner = any(
        isinstance(m, Func) and name != "__init__" and touches(lines, m.node) for name, m in cls.body.items()
    )
    init_lines = init is not None and isinstance(init[1], Func) and touches(lines, init[1].node)
    for name, method in list(cls.body.items()):
        if (
            not isinstance(method, Func)
            or method.kind != "function"
            or method.opaque
            or id(method.node) in run.reached
        ):
            continue
        if name.startswith("__") or (PREPARING.search(name) and name != "forward"):
            continue
        interesting = touches(lines, method.node) or (init_lines and name == "forward")
        if not interesting:
            if name != "forward":
                continue
            if not inner:
                continue
        spent += guarded(run, partial(module_entry, run, cls, method, lines, inner))
    return spent


def plain_parts(instance: Instance) -> bool:
    """Whether a module holds anything that a move does not reach."""
    registry: dict[str, str] = instance.cells.get("#reg") or {}
    for name, value in instance.cells.items():
        if str(name).startswith("#") or name in registry:
            continue
        if isinstance(value, Tensor) or (
            isinstance(value, Seq | Dict) and any(map(modules.is_module, inside(value)))
        ):
            return True
        if isinstance(value, Seq | Dict) and leaves(value):
            return True
    return False


def inside(value: Seq | Dict) -> list[Value]:
    """The items of a container."""
    if isinstance(value, Dict):
        return [v for v in value.cells.values() if isinstance(v, Value)]
    return [*value.items, *([value.rest] if value.rest is not None else [])]


def module_entry(run: Run, cls: Class, method: Func, lines: list[int], with_plain: bool) -> None:
    """Make a module, move it to an unknown device, call one of its methods."""
    frame = base_frame(run, cls.module)
    run.shallow, run.entry_class = True, cls
    reached = set(run.reached)
    try:
        run.quiet += 1
        instance = classes.instantiate(run, cls, [], {"*": UNKNOWN, "**": UNKNOWN}, cls.node, frame)
        if not isinstance(instance, Instance):
            return
        run.entry_instance = instance
        dev = symbol(instance, "the module's device")
        forget_assigned(run, instance, cls, run.reached - reached)
        target = Device(dev)
        mover = cls.find("to")
        if mover is not None and isinstance(mover[1], Func):
            calls.invoke(run, mover[1], instance, [target], {}, cls.node, frame)
            if modules.device_of(instance) != dev:
                return
        else:
            modules.move(run, instance, target, cls.node, frame, "to")
        run.quiet -= 1
        if not with_plain and not touches(lines, method.node) and not plain_parts(instance):
            return
        # What other methods are given may well be on the host: the loader's collate functions are such.
        inputs = dev if method.name in FORWARD else None
        args, kwargs = unknown_arguments(run, method, inputs, frame, True)
        calls.invoke(run, method, instance, args, kwargs, method.node, frame)
    finally:
        run.quiet = 0
        run.reached = reached | {id(method.node)}
        run.shallow, run.entry_class, run.entry_instance = False, None, None


def forget_assigned(run: Run, instance: Instance, cls: Class, reached: set[int]) -> None:
    """Attributes that other code assigns too may be anything by now."""
    held = {
        k: v
        for k, v in instance.cells.items()
        if isinstance(v, Tensor | Param) and not str(k).startswith("#")
    }
    if not held:
        return
    elsewhere = run.stores
    if elsewhere is None:
        elsewhere = run.stores = attribute_stores(run)
    for name, value in held.items():
        if isinstance(value, Param):
            continue
        if any(node not in reached for node in elsewhere.get(str(name), ())):
            forgotten = value.copy()
            forgotten.dev = None
            run.trail.write(instance.cells, name, forgotten)


def attribute_stores(run: Run) -> dict[str, set[int]]:
    """For each attribute name the functions (by id) of the file that assign it."""
    found: dict[str, set[int]] = {}
    pending: list[tuple[ast.AST, tuple[int, ...]]] = [(run.file.parsed(), ())]
    while pending:
        node, functions = pending.pop()
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.attr, set()).update(functions)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            found.setdefault(setattr_name(node), set()).update(functions)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions = (*functions, id(node))
            pending.extend((statement, functions) for statement in node.body)
        elif isinstance(node, ast.expr) and not isinstance(node, CARRIERS):
            continue
        else:
            pending.extend((inner, functions) for inner in ast.iter_child_nodes(node))
    return found


def setattr_name(call: ast.Call) -> str:
    """The attribute that a call of `setattr` assigns, "" when that is not written out."""
    name = call.args[1] if len(call.args) > 1 else None
    return str(name.value) if isinstance(name, ast.Constant) else ""


def autograd_entry(run: Run, cls: Class, lines: list[int]) -> int:
    """`forward` and `backward` of a custom function: what comes in is on the device that computes."""
    spent = 0
    for name in ("forward", "backward"):
        method = cls.body.get(name)
        if isinstance(method, Func) and id(method.node) not in run.reached and touches(lines, method.node):
            spent += guarded(run, partial(autograd_method, run, cls, method, name))
    return spent


def autograd_method(run: Run, cls: Class, method: Func, name: str) -> None:
    from samedevice.lint.autograd import context

    frame = base_frame(run, cls.module)
    dev = symbol(cls, "the device of its inputs")
    args, kwargs = unknown_arguments(run, method, dev, frame, True)
    if name == "backward":
        args = [gradient(a, dev, method, index) for index, a in enumerate(args)]
    run.shallow = True
    try:
        calls.invoke(run, method, None, [context(), *args], kwargs, method.node, frame)
    finally:
        run.shallow = False


def gradient(value: Value, dev: Dev, method: Func, index: int) -> Value:
    """An argument of `backward` is a tensor."""
    tensor = Tensor(
        dev, -1, Event("gradient", Site(method.file, method.node.args.args[index + 1], method.name))
    )
    tensor.likely = True
    return tensor


def plain_entry(run: Run, cls: Class, lines: list[int]) -> int:
    """Methods of a class that is no module."""
    spent = 0
    for name, method in list(cls.body.items()):
        if not isinstance(method, Func) or method.opaque or id(method.node) in run.reached:
            continue
        if method.kind not in ("function", "staticmethod") or (name.startswith("__") and name != "__call__"):
            continue
        if not touches(lines, method.node):
            continue
        spent += guarded(run, partial(plain_method, run, cls, method))
    return spent


def plain_method(run: Run, cls: Class, method: Func) -> None:
    """Make an object with unknown arguments and call one method."""
    frame = base_frame(run, cls.module)
    run.shallow = True
    reached = set(run.reached)
    try:
        if method.kind == "staticmethod":
            args, kwargs = unknown_arguments(run, method, None, frame, False)
            calls.invoke(run, method, None, args, kwargs, method.node, frame)
            return
        run.quiet += 1
        instance = classes.instantiate(run, cls, [], {"*": UNKNOWN, "**": UNKNOWN}, cls.node, frame)
        run.quiet -= 1
        if not isinstance(instance, Instance):
            return
        forget_assigned(run, instance, cls, run.reached - reached)
        args, kwargs = unknown_arguments(run, method, None, frame, True)
        calls.invoke(run, method, instance, args, kwargs, method.node, frame)
    finally:
        run.quiet = 0
        run.reached = reached | {id(method.node)}
        run.shallow = False
