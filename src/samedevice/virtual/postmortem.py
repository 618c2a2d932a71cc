"""Placement mistakes that end a program with an exception of PyTorch's own Python code.

Most refusals come from the device rules. A few checks live in torch's Python (a forked worker, an
optimizer given what a move left of a parameter): the run learns of them when the program has died.
"""

import re
from types import TracebackType
from typing import Any, Final

from samedevice.model.diagnostic import Location
from samedevice.model.scene import Action, Holder, Kind, Operand, Scene, Step
from samedevice.program.files import USER, kind_of, shown
from samedevice.program.frames import Spot, line_location, operator_of
from samedevice.program.values import is_tensor
from samedevice.torch_facts.messages.catalogue import match_message
from samedevice.virtual.steps import frame_fact, step_of_birth
from samedevice.virtual.tags import device_index, device_name, tag_of

#: what the exception's text begins or ends with -> the kind of scene
KNOWN: Final = (
    (re.compile(r"Cannot re-initialize CUDA in forked subprocess"), Kind.FORK),
    (re.compile(r"can't optimize a non-leaf Tensor"), Kind.LEAF),
    (re.compile(r"Found two parameters on different devices"), Kind.OPERANDS),
    (re.compile(r"You can't move a model that has some modules offloaded"), Kind.OFFLOAD),
    (re.compile(r"you have activated sequential model offloading"), Kind.OFFLOAD),
    (re.compile(r"^Attempting to unscale FP16 gradients"), Kind.DTYPE),
    (re.compile(r"Attempting to deserialize object on (?:a )?CUDA device"), Kind.LOAD),
)

#: the end of a dtype's name in C++ ("Half", "c10::Half", "torch.cuda.HalfTensor") -> torch's name
DTYPES: Final = {
    "Float": "float32", "float": "float32", "Double": "float64", "double": "float64", "Half": "float16",
    "BFloat16": "bfloat16", "Long": "int64", "long": "int64", "Int": "int32", "int": "int32", "Byte": "uint8",
    "Bool": "bool", "bool": "bool",
}  # fmt: skip

WORKER_LINE: Final = re.compile(
    r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)', re.MULTILINE
)


def scene_of_exception(error: BaseException, gpus: int) -> Scene | None:
    """The scene of an exception that names a placement mistake, None for any other."""
    text = str(error)
    kind = next((k for pattern, k in KNOWN if pattern.search(text)), None)
    dtypes = _dtypes_of(error) if kind is None else ()
    if dtypes:
        kind = Kind.DTYPE
    spots = _user_spots(error.__traceback__)
    if kind is None or not spots:
        return None
    extra: dict[str, object] = {"family": str(kind), "dtypes": dtypes}
    operands: tuple[Operand, ...] = ()
    message = text
    if kind is Kind.FORK:
        message = next((line for line in text.splitlines() if "forked subprocess" in line), text)
        message = message.removeprefix("RuntimeError: ")
        # A DataLoader puts its worker's traceback into the text, a pool into the cause.
        inside = _line_in_worker(text) or _line_in_worker(str(error.__cause__ or ""))
        if inside is not None:
            extra["worker_line"] = inside
    if kind is Kind.LEAF:
        operands = _parameter(error.__traceback__)
    return Scene(
        kind=kind,
        operator=operator_of(spots[-1].node, spots[-1].filename) or spots[-1].function,
        exception=type(error).__name__,
        message=message,
        raised=spots[-1].location,
        operands=operands,
        stray=0 if operands else None,
        frames=tuple(frame_fact(spot) for spot in spots),
        gpus=gpus,
        extra=extra,
    )


def _dtypes_of(error: BaseException) -> tuple[str, ...]:
    """The element types that a message says do not fit; () for any other message."""
    if type(error) is not RuntimeError:
        return ()
    match = match_message(str(error))
    # "expected scalar type" are also the words of CPU kernels whose counterparts on a GPU are less strict.
    if (
        match is None
        or match.family.name != "operand-dtypes"
        or match.text.startswith("expected scalar type")
    ):
        return ()
    names = [match.fields.get(key, "") for key in ("dt1", "dt2", "dt3", "t1", "t2")]
    found = (re.sub(r"^(?:.*[:.])?(?:CPU|CUDA)?|(?:Tensor|Type)$", "", name) for name in names if name)
    return tuple(dict.fromkeys(DTYPES[name] for name in found if name in DTYPES))


def _user_spots(traceback: TracebackType | None) -> list[Spot]:
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if kind_of(code.co_filename) == USER:
            found.append(Spot(code, traceback.tb_lasti))
        traceback = traceback.tb_next
    return found


def _line_in_worker(text: str) -> Step | None:
    """The innermost user's line of the traceback that a worker process sent along."""
    lines = [m for m in WORKER_LINE.finditer(text) if kind_of(m["file"]) == USER]
    if not lines:
        return None
    last = lines[-1]
    location: Location = line_location(last["file"], int(last["line"]))
    if location.path != shown(last["file"]):
        return None
    return Step(Action.CREATED, last["function"], location, function_name=last["function"])


def _parameter(traceback: TracebackType | None) -> tuple[Operand, ...]:
    """The tensor that an optimizer refused, with how it came to be."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    tensor: Any = None if traceback is None else traceback.tb_frame.f_locals.get("param")
    if not is_tensor(tensor):
        return ()
    tag = tag_of(tensor)
    birth = None if tag is None else tag.birth
    steps = () if birth is None else tuple(step_of_birth(b) for b in birth.history())
    return (
        Operand(
            "param",
            device_name(device_index(tensor)),
            holder=Holder.UNKNOWN,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            provenance=steps,
            requires_grad=True,
        ),
    )
