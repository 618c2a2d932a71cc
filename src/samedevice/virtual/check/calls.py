"""A call whose operands are on different devices, laid out by the operator's schema."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from samedevice.virtual.check import wording
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, META, UNSETTLED

Where = Callable[[Any], int]

_TENSOR: Final = torch.Tensor


@dataclass(slots=True)
class Operand:
    """One tensor of a call.

    Attributes:
        name: the schema's argument name; elements of a list share the list's.
        tensor: None for a Python number where the schema wants a tensor, and for intermediate results.
        device: as the rules see it; a Python number is a CPU scalar.
        written: the call writes to it (`out=`, or in place).
        keyword: keyword-only in the schema; the generated check does not look at those, outputs apart.
    """

    name: str
    tensor: Any
    device: int
    written: bool = False
    keyword: bool = False
    is_list: bool = False
    virtual_shape: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.virtual_shape if self.tensor is None else tuple(self.tensor.shape)

    @property
    def dim(self) -> int:
        return len(self.virtual_shape) if self.tensor is None else int(self.tensor.dim())

    @classmethod
    def like(cls, other: "Operand") -> "Operand":
        """A tensor that the operator makes inside, where `other` is and of its shape."""
        return cls(other.name, None, other.device, virtual_shape=other.shape)

    @property
    def is_cpu_scalar(self) -> bool:
        return self.device == CPU and self.dim == 0


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    kind: str  # "tensor", "list" or "other"
    written: bool
    keyword: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """What the rules need of an operator's schema."""

    name: str
    base: str
    parameters: tuple[Parameter, ...]

    @property
    def is_out(self) -> bool:
        return any(parameter.keyword and parameter.written for parameter in self.parameters)

    @classmethod
    def of(cls, func: Any) -> "Signature":
        schema = func._schema
        name = schema.name.removeprefix("aten::")
        if schema.overload_name:
            name += f".{schema.overload_name}"
        parameters = []
        for argument in schema.arguments:
            text = str(argument.type)
            kind = "other"
            if "Tensor" in text:
                kind = "list" if "List[" in text else "tensor"
            written = argument.alias_info is not None and argument.alias_info.is_write
            parameters.append(Parameter(argument.name, kind, written, argument.kwarg_only))
        base = schema.name.removeprefix("aten::")
        return cls(name, base, tuple(parameters))


@dataclass(slots=True)
class Call:
    """The operands of one call, in schema order, those on no settled device left out."""

    signature: Signature
    values: dict[str, Any]
    operands: list[Operand] = field(default_factory=list)

    @classmethod
    def of(cls, signature: Signature, args: Any, kwargs: Any, where: Where) -> "Call":
        values: dict[str, Any] = {}
        call = cls(signature, values)
        count = len(args)
        for position, parameter in enumerate(signature.parameters):
            if position < count and not parameter.keyword:
                value = args[position]
            elif parameter.name in kwargs:
                value = kwargs[parameter.name]
            else:
                continue
            values[parameter.name] = value
            if parameter.kind == "other" or value is None:
                continue
            if isinstance(value, _TENSOR):
                call._add(parameter, value, where(value), False)
            elif isinstance(value, (list, tuple)):
                for element in value:
                    if isinstance(element, _TENSOR):
                        call._add(parameter, element, where(element), True)
            elif isinstance(value, (int, float, complex, bool)):
                call.operands.append(Operand(parameter.name, None, CPU, keyword=parameter.keyword))
        return call

    def _add(self, parameter: Parameter, tensor: Any, device: int, is_list: bool) -> None:
        if device == UNSETTLED:
            return
        self.operands.append(
            Operand(parameter.name, tensor, device, parameter.written, parameter.keyword, is_list)
        )

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def base(self) -> str:
        return self.signature.base

    def one(self, name: str) -> Operand | None:
        """The operand of that name, None when it is absent, undefined or on no settled device."""
        for operand in self.operands:
            if operand.name == name and operand.tensor is not None:
                return operand
        return None

    def many(self, name: str) -> list[Operand]:
        return [operand for operand in self.operands if operand.name == name]

    def devices(self) -> set[int]:
        return {operand.device for operand in self.operands if operand.tensor is not None}

    def inputs(self) -> list[Operand]:
        """What is read: everything but `out=` arguments."""
        return [operand for operand in self.operands if not (operand.written and operand.keyword)]

    def outputs(self) -> list[Operand]:
        return [operand for operand in self.operands if operand.written and operand.tensor is not None]

    def tensors(self) -> Iterator[Operand]:
        return (operand for operand in self.operands if operand.tensor is not None)

    def refuse(
        self,
        family: str,
        message: str,
        *,
        common: int,
        blamed: Operand | None = None,
        exception: type[BaseException] = RuntimeError,
        recoverable: bool = True,
    ) -> Refusal:
        listed = list(self.tensors())
        index = next((i for i, operand in enumerate(listed) if operand is blamed), None)
        return Refusal(
            exception,
            message,
            family,
            tuple((operand.name, operand.tensor, operand.device) for operand in listed),
            common,
            index,
            recoverable,
        )

    def refuse_exact(self, blamed: Operand, common: int, method: str, *, argument: str = "") -> Refusal:
        """With the words of the generated check; `argument` where the callee names it otherwise."""
        message = wording.generated_check(argument or blamed.name, blamed.device, common, method)
        return self.refuse("exact", message, common=common, blamed=blamed)


def first_device(operands: list[Operand]) -> int:
    """TensorIterator's common device: the first that is not the CPU."""
    return next((operand.device for operand in operands if operand.device != CPU), CPU)


def common_device(devices: list[int]) -> int:
    """Where CUDA puts the result of operands on these devices.

    The first that is not the CPU. A meta tensor leads only among meta and CPU tensors (a result that
    has data is elsewhere), UNSETTLED only alone.
    """
    settled = [device for device in devices if device not in (UNSETTLED, META)]
    if META in devices and all(device == CPU for device in settled):
        return META
    if not settled:
        return UNSETTLED if devices else CPU
    return next((device for device in settled if device != CPU), CPU)
