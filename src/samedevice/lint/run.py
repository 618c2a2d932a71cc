"""The abstract machine of one analysis: state, budget, call stack, and what it reports to."""

import ast
from typing import Any

from samedevice.lint.devices import CPU, Dev
from samedevice.lint.engine_api import Project, SourceFile
from samedevice.lint.state import Trail
from samedevice.lint.values import Class, Device, Event, Func, Instance, Module, Site, Stack, Tensor, Value


class Exhausted(Exception):
    """The budget of this entry point is used up."""


class Frame:
    """One activation of a function, or a module's top level."""

    __slots__ = (
        "breaks",
        "cls",
        "config",
        "data",
        "depth",
        "ended",
        "file",
        "func",
        "globals_",
        "locals",
        "module",
        "name",
        "parent",
        "returns",
        "self_value",
        "stack",
        "yields",
    )  # fmt: skip

    def __init__(
        self, module: Module, func: Func | None, stack: Stack, parent: "Frame | None", depth: int
    ) -> None:
        self.module = module
        self.file: SourceFile = module.file if func is None else func.file
        self.func = func
        self.name = "<module>" if func is None else func.name
        self.stack = stack
        self.parent = parent
        self.depth = depth
        self.locals: dict[str, Any] = {}
        self.globals_: frozenset[str] = frozenset()
        self.returns: list[tuple[Value, bool]] = []
        self.yields: list[Value] | None = None
        self.ended: list[Any] = []
        self.breaks: list[list[Any]] = []
        self.config = 0
        self.data = 0
        self.self_value: Value | None = None
        self.cls: Any = None

    def site(self, node: ast.AST) -> Site:
        return Site(self.file, node, self.name)


class Run:
    """Everything that one analysis shares.

    Attributes:
        shallow: entry by entry, without following calls into other modules' `forward`.
        limit: how many nodes may still be evaluated.
        default: what factories use when no device is named; None when that is unknown.
    """

    def __init__(self, project: Project, file: SourceFile) -> None:
        self.project = project
        self.file = file
        self.trail = Trail()
        self.modules: dict[str, Module] = {}
        self.reads: set[str] = set()
        self.shallow = False
        self.limit = 80_000
        self.max_depth = 14
        self.default: Device | None = Device(CPU)
        self.default_named: Event | None = None
        self.active: list[Func] = []
        self.frames: list[Frame] = []
        self.reached: set[int] = set()
        self.tracing: list[list[Any]] = []
        self.saved: dict[Any, Value] = {}
        self.meetings: list[Any] = []
        self.seen: set[Any] = set()
        self.quiet = 0
        #: the program chose its current GPU, so that "cuda" may be any
        self.current_chosen = False
        #: the backend of `init_process_group`, if the program names it
        self.backend: object = None
        #: depth of loops around the present statement, through all calls
        self.repeats = 0
        #: whether imported files are run; else only the outline of their classes is looked at
        self.loads = True
        self.entry = 0
        self.stores: dict[str, set[int]] | None = None
        self.instances: list[Instance] = []
        #: depth of DataParallel replicas being run
        self.replicating = 0
        #: the object whose methods a shallow analysis looks at
        self.entry_instance: Instance | None = None
        self.entry_class: Class | None = None

    def allowed(self, cls: Class) -> bool:
        """Whether a shallow analysis may run the `__init__` of a module class met on the way."""
        return self.entry_class is not None and cls is self.entry_class

    def tick(self, amount: int = 1) -> None:
        """Use up budget.

        Raises:
            Exhausted: none is left.
        """
        self.limit -= amount
        if self.limit < 0:
            raise Exhausted

    def event(self, kind: str, node: ast.AST, frame: Frame, text: str = "", **more: Any) -> Event:
        """An event at `node`, with the calls that led there."""
        return Event(kind, Site(frame.file, node, frame.name), frame.stack, text, **more)

    def fresh(
        self, dev: Dev | None, rank: int | None, kind: str, node: ast.AST, frame: Frame, text: str
    ) -> Tensor:
        """A tensor made at `node`."""
        return Tensor(dev, rank, self.event(kind, node, frame, text))
