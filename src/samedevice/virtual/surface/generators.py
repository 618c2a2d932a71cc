"""Generators, seeds and random number states of virtual GPUs.

A virtual GPU without an explicit generator draws from the CPU's default generator, so that a run
prints the numbers that the same program prints on the CPU. Its default generator is therefore a
view of the CPU's:

- its state is the CPU generator's state, whole, so that saving and restoring reproduces;
- seeding it does not move the CPU's stream the first time a seed is given (without a GPU
  `torch.cuda.manual_seed` does nothing), but giving the same seed again goes back to where the
  stream was then: the program draws the same numbers after both, as CUDA promises.
"""

import weakref
from typing import Any, Final

import torch

from samedevice.virtual import check
from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import Place, here
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU

_Generator: Any = torch._C.Generator

#: bytes of a CUDA generator's state: seed and offset
_CUDA_STATE = 16
_DEFAULT_SEED = 67280421310721
#: names of functions that draw
_DRAWING = """
    rand rand_like randn randn_like randint randint_like randperm normal normal_ uniform_ random_ exponential_
    cauchy_ geometric_ log_normal_ bernoulli bernoulli_ binomial multinomial poisson dropout dropout_
    alpha_dropout alpha_dropout_ feature_dropout feature_dropout_ feature_alpha_dropout feature_alpha_dropout_
    native_dropout rrelu rrelu_ rrelu_with_noise lstm gru rnn_tanh rnn_relu scaled_dot_product_attention
    _standard_gamma _sample_dirichlet
""".split()
_MASK = (1 << 64) - 1

#: operations hand a generator on by the address of its C++ part, not as the object it was
_claimed: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()


class _GeneratorType(type(_Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Generator:
            return type.__instancecheck__(_Generator, instance)
        return type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls is Generator:
            return type.__subclasscheck__(_Generator, subclass)
        return type.__subclasscheck__(cls, subclass)


class Generator(_Generator, metaclass=_GeneratorType):
    """`torch.Generator` while virtual GPUs are entered: a CPU generator that may claim a GPU."""

    def __new__(cls, device: Any = None) -> Any:
        where = torch.device("cpu" if device is None else device)
        if where.type != "cuda":
            if cls is Generator:
                return _Generator(where)
            return _Generator.__new__(cls, where)
        torch.cuda._lazy_init()
        return _claim(cls, where)

    @property
    def device(self) -> torch.device:
        where = self.__dict__.get("_where")
        return _Generator.device.__get__(self) if where is None else where

    @property
    def virtual_device(self) -> torch.device | None:
        """The GPU it claims to be on, None for a generator of the CPU."""
        return self.__dict__.get("_where")

    @property
    def drawn_from(self) -> Any:
        """The generator that numbers really come from."""
        return self

    def get_offset(self) -> int:
        """Bytes of the Philox stream used up; a CPU generator below has none to report."""
        return 0 if "_where" in self.__dict__ else super().get_offset()

    def set_offset(self, offset: int) -> Any:
        return None if "_where" in self.__dict__ else super().set_offset(offset)

    def set_state(self, state: Any) -> Any:
        if "_where" in self.__dict__:
            _load_state(super(), state)
            return self
        return super().set_state(state)

    def clone_state(self) -> Any:
        clone = type(self)(self.device)
        _Generator.set_state(clone, _Generator.get_state(self))
        return clone

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, other: Any) -> Any:
        return self.set_state(other.get_state())

    def __reduce__(self) -> Any:
        if "_where" not in self.__dict__:
            return super().__reduce__()
        return Generator, (self.device,), (self.initial_seed(), self.get_offset(), self.get_state())

    def __setstate__(self, state: Any) -> None:
        seed, offset, bits = state
        if "_where" not in self.__dict__:
            super().__setstate__(state)
            return
        self.manual_seed(seed)
        self.set_offset(offset)
        self.set_state(bits)


Generator.__module__ = "torch._C"
Generator.__qualname__ = Generator.__name__ = "Generator"


class DefaultGenerator(Generator):
    """The default generator of one virtual GPU: a view of the CPU's default generator."""

    _machine: Machine
    _seed: int
    _marks: dict[int, Any]
    _untouched: tuple[int, int]

    @property
    def drawn_from(self) -> Any:
        """The CPU's default generator."""
        return torch.default_generator

    def manual_seed(self, seed: int) -> Any:
        seed = int(seed)
        if not -(1 << 63) <= seed < (1 << 64):
            raise RuntimeError(f"Overflow when unpacking long: {seed}")
        seed &= _MASK
        default = torch.default_generator
        # Nothing was drawn on a GPU since it was seeded with the same number: seeding it once more
        # changes nothing on CUDA.
        if self._untouched != (seed, self._machine.draws):
            if default.initial_seed() == seed and (seed in self._marks or self._seed == seed):
                default.manual_seed(seed)
            elif seed in self._marks:
                default.set_state(self._marks[seed])
            else:
                self._marks[seed] = default.get_state()
        self._seed = seed
        self._untouched = (seed, self._machine.draws)
        return self

    def seed(self) -> int:
        fresh = torch._C.Generator()
        self._seed = fresh.seed()
        self._untouched = (-1, 0)
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> Any:
        return torch.default_generator.get_state()

    def set_state(self, state: Any) -> Any:
        _load_state(torch.default_generator, state)
        return self

    def clone_state(self) -> Any:
        clone = Generator(self.device)
        clone.set_state(self.get_state())
        return clone

    graphsafe_get_state = clone_state


def _claim(cls: Any, where: torch.device) -> Any:
    generator = _Generator.__new__(cls)
    generator._where = where
    generator._made_at = here(2)
    _claimed[generator._cdata] = generator
    return generator


def drawing_functions() -> set[Any]:
    """torch's functions that may draw random numbers."""
    found = set()
    for name in _DRAWING:
        for owner in (torch, torch.Tensor, torch._C._nn, torch._VF):
            function = getattr(owner, name, None)
            if callable(function):
                found.add(function)
    return found


#: operations that take their generator as a positional argument → which
BY_POSITION: Final = {
    operator: [argument.name for argument in operator._schema.arguments].index("generator")
    for operator in (
        torch.ops.aten.poisson.default,
        torch.ops.aten.binomial.default,
        torch.ops.aten._standard_gamma.default,
        torch.ops.aten._sample_dirichlet.default,
        torch.ops.aten.rrelu_with_noise.default,
        torch.ops.aten.rrelu_with_noise_.default,
    )
}


def by_name(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The same arguments with the generator among those by name."""
    position = BY_POSITION[func]
    if len(args) <= position:
        return args, kwargs
    return args[:position], {**kwargs, "generator": args[position]}


#: operations whose kernel is CUDA's when the generator is a GPU's, wherever the tensors are
_LED_BY_GENERATOR: Final = frozenset(
    (
        torch.ops.aten.poisson.default,
        torch.ops.aten.binomial.default,
        torch.ops.aten._standard_gamma.default,
        torch.ops.aten._sample_dirichlet.default,
    )
)


def misfit(func: Any, args: tuple[Any, ...], on_gpu: bool, device: int) -> Refusal | None:
    """What CUDA says to a generator of a GPU (or of the CPU) for an operation on `device`."""
    if func in _LED_BY_GENERATOR:
        if on_gpu and device < 0:
            # binomial's kernel does not look where its tensors are
            if func is torch.ops.aten.binomial.default:
                return None
            return Refusal(RuntimeError, check.wording.CPU_IN_GPU_KERNEL, "generator", common=CPU)
    elif _draws_nothing(func, args):
        return None
    return check.check_generator("cuda" if on_gpu else "cpu", "cuda" if device >= 0 else "cpu")


def _draws_nothing(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operation's result is empty: most kernels do not ask for their generator then."""
    for value in args:
        if isinstance(value, torch.Tensor):
            return value.numel() == 0
        if isinstance(value, (list, tuple)):
            return 0 in value
    return bool(args) and func._schema.name == "aten::randperm" and args[0] == 0


def made_at(generator: Any) -> Place | None:
    """Where a virtual GPU's generator was made, None for the CPU's, which keep nothing."""
    found = None if generator is None else getattr(claimed(generator), "_made_at", None)
    return found if isinstance(found, Place) else None


def claimed(generator: Any) -> Any:
    """The virtual GPU's generator that C++ handed back as a plain one, None for the CPU's own."""
    return _claimed.get(generator._cdata)


DefaultGenerator.__module__ = "torch._C"
DefaultGenerator.__qualname__ = DefaultGenerator.__name__ = "Generator"


def _load_state(generator: Any, state: Any) -> None:
    """Restore a state; one of a real GPU's generator is a seed and an offset."""
    if not isinstance(state, torch.Tensor) or state.dtype != torch.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    if state.numel() == _CUDA_STATE:
        seed = int.from_bytes(bytes(state.tolist()[:8]), "little")
        generator.manual_seed(seed)
    elif state.numel() < 5000:
        raise RuntimeError("RNG state is wrong size")
    else:
        generator.set_state(state)


def defaults(machine: Machine) -> tuple[Any, ...]:
    """The default generator of each of the machine's GPUs."""
    for index in range(len(machine.generators), machine.count):
        generator = _claim(DefaultGenerator, torch.device("cuda", index))
        generator._machine = machine
        generator._seed = _DEFAULT_SEED
        generator._marks = {}
        generator._untouched = (-1, 0)
        machine.generators.append(generator)
    return tuple(machine.generators[: machine.count])


def install(patches: Patches, machine: Machine) -> None:
    """Replace `torch.Generator` and give each GPU its default generator."""
    patches.set(torch.cuda, "default_generators", defaults(machine))
    patches.set(torch, "Generator", Generator)
    patches.set(torch._C, "Generator", Generator)
