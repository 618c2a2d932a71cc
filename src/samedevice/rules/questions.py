"""Questions that several rules ask of a scene, and the sentences that several rules tell."""

import ast

from samedevice.model.diagnostic import Evidence, Location
from samedevice.model.scene import Action, Frame, Holder, Kind, ModuleFact, Operand, Scene, Step

STATE = (Holder.PARAMETER, Holder.BUFFER)
MADE = (Action.CREATED, Action.FROM_NUMPY)

LOSSES = (
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "ctc_loss",
    "triplet_margin_loss",
    "margin_ranking_loss",
    "cosine_embedding_loss",
    "multi_margin_loss",
)


def is_mixed(scene: Scene) -> bool:
    """Tensors of one call on different devices, indexing included."""
    return scene.kind in (Kind.OPERANDS, Kind.INDEX) and scene.stray is not None


def candidates(scene: Scene) -> tuple[Operand, ...]:
    """The stray as it is held, then what it was computed from."""
    stray, culprit = scene.stray_operand, scene.culprit
    if stray is None or culprit is None:
        return ()
    return (stray,) if stray is culprit else (stray, culprit)


def module_of(scene: Scene) -> ModuleFact | None:
    """The module whose parameter or buffer is out of place, or an attribute that would move with it."""
    culprit = scene.culprit
    if culprit is None or culprit.module is None:
        return None
    if culprit.holder in STATE:
        return culprit.module
    moves_along = culprit.holder is Holder.ATTRIBUTE and culprit.holder_is_module
    return culprit.module if moves_along and culprit.module.moves_attributes else None


def left_behind(scene: Scene) -> ModuleFact | None:
    """The module whose parameters a collective met although it was never moved to a GPU."""
    module = module_of(scene)
    if scene.kind is not Kind.COLLECTIVE or module is None or module.moves:
        return None
    return module if all(o.device == "cpu" for o in scene.operands) else None


def last(steps: tuple[Step, ...]) -> Step | None:
    """The latest of some steps."""
    return max(steps, key=lambda s: s.order) if steps else None


def to_gpu(steps: tuple[Step, ...]) -> Step | None:
    """The first move to a GPU."""
    return next((s for s in steps if s.device is not None and s.device.startswith("cuda")), None)


def meeting(step: Step, other: Step) -> Frame | None:
    """Where `step` happened, seen from the function in which both happened one after the other.

    `ema = EMA(model)` and `model.to(device)` in `main`: the copy itself is made deep inside `EMA`, but
    the order is wrong in `main`.
    """
    for mine, others in zip(step.trail, other.trail, strict=False):
        if mine.function != others.function or mine.location.path != others.location.path:
            return None
        if mine.location != others.location:
            return mine
    return None


def set_apart(step: Step, other: Step, scene: Scene) -> Frame | None:
    """Where `step` is out of order with `other`, outside of the call that leads to the failing line.

    `generate(model)` sets up the caches and then uses them: the order is wrong where it calls the two,
    not where `generate` is called.
    """
    first = meeting(step, other)
    if first is None:
        return None
    at = step.trail.index(first)
    below = step.trail[at:]
    if len(below) > 1 and same_line(first.location, other.trail[at].location):
        # `Ema(Net()).to(device)`: one statement does both, and what is wrong is inside of it.
        first, below = below[1], below[1:]
    running = {(f.function, f.location.path, f.location.line) for f in scene.frames}
    apart = (f for f in below if (f.function, f.location.path, f.location.line) not in running)
    return next(apart, first)


def same_line(one: Location, other: Location) -> bool:
    """Whether two places are on the same line."""
    return (one.path, one.line) == (other.path, other.line)


def replaced(operand: Operand, scene: Scene) -> bool:
    """The program put the tensor in the place of one that had moved with its module."""
    module = operand.module
    move = last(module.moves) if module is not None and operand.holder in STATE else None
    if move is None or not operand.provenance or move.device != scene.wanted:
        return False
    return operand.device != move.device and operand.provenance[-1].order > move.order


def place(*steps: Step | None) -> Location | None:
    """The location of the first step that has one."""
    return next((s.location for s in steps if s is not None and s.location is not None), None)


def shown(step: Step | None, otherwise: str = "it") -> str:
    """The step's source text, shortened, in backticks."""
    text = None if step is None else step.expression
    return otherwise if not text else f"`{short(text)}`"


def short(text: str, most: int = 60) -> str:
    """`text` on one line, at most `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def called(operand: Operand, scene: Scene) -> str:
    """How the user knows the tensor: as written in the failing line, else by who holds it."""
    stray = scene.stray_operand
    if operand.holder in (*STATE, Holder.ATTRIBUTE) and operand.attribute:
        if operand.holder in STATE:
            written = operand.expression or ""
            return (
                written
                if operand.attribute in written and "(" not in written
                else operand.path or operand.attribute
            )
        if operand.path is not None and operand.host_path is not None and operand.holder_is_module:
            return "self" + operand.path[len(operand.host_path) :]
        if operand.expression and operand.attribute in operand.expression and "(" not in operand.expression:
            return operand.expression
        return operand.path or operand.attribute
    if stray is not None and stray.origin is operand and stray.expression and operand is stray:
        return stray.expression
    return operand.expression or operand.path or (stray.shown if stray is not None else operand.shown)


def birth(operand: Operand) -> Evidence | None:
    """The first step of the story: how the tensor came to be where it is."""
    born = operand.born
    if born is None or born.location is None:
        return None
    what, device = shown(born, "it"), born.device or operand.device
    if born.action is Action.FROM_NUMPY:
        text = f"{what} takes its data from numpy, so it is on {device}"
    elif born.action is Action.LOADED:
        text = f"loaded onto {device} here"
    elif born.action is Action.BATCHED:
        text = f"the DataLoader hands out its batches on {device}"
    elif born.action is Action.MOVED:
        text = f"moved to {device} here"
    elif born.action is Action.COPIED:
        text = f"copied on {device} here"
    elif born.action is Action.DERIVED:
        text = f"computed on {device} here"
    elif born.action is Action.CREATED and born.explicit_device:
        text = f"{what} is created on {device} here"
    elif born.action is Action.CREATED and born.explicit_device is False and _names(born):
        text = f"{what} is created on {device} here: it names no device"
    elif born.action is Action.CREATED and born.expression:
        text = f"{what} is created on {device} here"
    else:
        text = f"on {device} from here on"
    if born.package:
        text += f" (inside {born.package})"
    return Evidence(born.location, text)


def _names(step: Step) -> bool:
    """The expression is the call of the factory itself, not of something that calls it inside."""
    return step.function.rpartition(".")[2] in (step.expression or "")


def arrival(operand: Operand) -> Evidence | None:
    """How the tensor came to where it is: its last move, else its birth."""
    for step in reversed(operand.provenance):
        if step.action is Action.MOVED and step.location is not None:
            return Evidence(step.location, f"moved to {step.device or operand.device} here")
    return birth(operand)


def met(scene: Scene) -> Evidence:
    """The last step of the story: the call that raises."""
    by_device: dict[str, list[str]] = {}
    for operand in scene.operands[:6]:
        by_device.setdefault(operand.device, []).append(f"`{short(operand.shown, 40)}`")
    if len(by_device) > 1:
        parts = []
        for device, names in by_device.items():
            listed = ", ".join(dict.fromkeys(names[:3]))
            parts.append(f"{listed} {'is' if len(set(names[:3])) == 1 else 'are'} on {device}")
        text = f"they meet here: {'; '.join(parts)}"
    elif scene.operands:
        operand = scene.operands[0]
        name = f"`{short(operand.shown, 40)}`" if operand.expression or operand.path else "the tensor"
        text = f"{name} is on {operand.device} here"
    else:
        text = f"{scene.exception} is raised here"
    package = scene.frames[-1].package if scene.frames else None
    if package:
        text += f" (inside {package})"
    return Evidence(scene.raised, text)


def story(scene: Scene, *parts: Evidence | tuple[Step | None, str] | None) -> tuple[Evidence, ...]:
    """Evidence in the order given, repeats left out, the failing call last."""
    found: list[Evidence] = []
    for part in parts:
        if isinstance(part, tuple):
            step, text = part
            part = None if step is None or step.location is None else Evidence(step.location, text)
        if part is not None and all((e.location, e.message) != (part.location, part.message) for e in found):
            found.append(part)
    inside = scene.frames[-1] if scene.frames and scene.frames[-1].package else None
    if inside is not None:
        found.append(
            Evidence(inside.location, f"`{short(inside.source or inside.function)}` in {inside.package}")
        )
    return (*found, met(scene))


def with_device(expression: str | None, anchor: str | None) -> str | None:
    """The factory call with `device=` added."""
    if expression is None or anchor is None:
        return None
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(tree, ast.Call) or any(k.arg == "device" for k in tree.keywords):
        return None
    name = tree.func.attr if isinstance(tree.func, ast.Attribute) else getattr(tree.func, "id", "")
    text = expression.strip()
    if name in ("from_numpy", "frombuffer", "Tensor", "FloatTensor", "LongTensor", "load", "numpy"):
        return f"{text}.to({anchor})"
    inner = text[:-1].rstrip().removesuffix(",")
    separator = "" if inner.endswith("(") else ", "
    return f"{inner}{separator}device={anchor})"


def moved(expression: str | None, anchor: str | None) -> str | None:
    """The expression with a move behind it."""
    if expression is None or anchor is None:
        return None
    simple = all(c.isalnum() or c in "_.[]'\"()" for c in expression)
    return f"{expression}.to({anchor})" if simple else f"({expression}).to({anchor})"


def device_of_others(scene: Scene) -> str | None:
    """`x.device` of an operand of the failing call that is in the right place and has a name."""
    for operand in scene.operands:
        if (
            operand.device == scene.wanted
            and operand.expression
            and operand.expression.replace(".", "").replace("_", "").isalnum()
        ):
            return f"{operand.expression}.device"
    return None


def wanted(scene: Scene) -> str:
    """The device where the stray belongs, in words when unknown."""
    return scene.wanted or "the other device"


def is_loss_call(scene: Scene) -> bool:
    """The failing call computes a loss."""
    words = scene.operator.rpartition(".")[2].lower()
    if words in LOSSES or words.endswith("loss") or "criterion" in words:
        return True
    return any(word in scene.message for word in ("nll_loss", "_loss"))
