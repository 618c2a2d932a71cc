"""Abstract values: what an expression may hold, with where it came from."""

import ast
from typing import Any, Literal

from samedevice.lint.devices import Dev
from samedevice.lint.engine_api import SourceFile

#: Number of dimensions: exact, ANY_ABOVE_ZERO, or None when nothing is known.
Rank = int | None
ANY_ABOVE_ZERO = -1


class Site:
    """A node of a file: a place that a message can point at."""

    __slots__ = ("file", "function", "node")

    def __init__(self, file: SourceFile, node: ast.AST, function: str = "<module>") -> None:
        self.file = file
        self.node = node
        self.function = function

    @property
    def line(self) -> int:
        return int(getattr(self.node, "lineno", 1))


Stack = tuple[Site, ...]


class Event:
    """Something that happened: what, where, and through which calls."""

    __slots__ = ("device", "extra", "kind", "site", "stack", "text")

    def __init__(
        self,
        kind: str,
        site: Site,
        stack: Stack = (),
        text: str = "",
        device: "Device | None" = None,
        extra: Any = None,
    ) -> None:
        self.kind = kind
        self.site = site
        self.stack = stack
        self.text = text
        self.device = device
        self.extra = extra


class Value:
    """Anything."""

    __slots__ = ()


class Unknown(Value):
    """A value of which nothing is known but its identity; attributes keep theirs too."""

    __slots__ = ("attrs", "name", "tags")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.attrs: dict[str, Value] | None = None
        self.tags: frozenset[str] = frozenset()


UNKNOWN = Unknown()


class Const(Value):
    """A Python constant; `site` is where the literal stands, `default` the call that left it out."""

    __slots__ = ("default", "site", "value")

    def __init__(self, value: Any, site: Site | None = None, default: Event | None = None) -> None:
        self.value = value
        self.site = site
        self.default = default


NONE = Const(None)


class Num(Value):
    """A Python or NumPy number, string or other host scalar of unknown value."""

    __slots__ = ("tag",)

    def __init__(self, tag: str = "") -> None:
        self.tag = tag


NUM = Num()


class Array(Value):
    """A NumPy array, DataFrame or the like: on the host, and no tensor."""

    __slots__ = ()


ARRAY = Array()


class Device(Value):
    """A `torch.device` or what stands for one; `site` is where it was chosen."""

    __slots__ = ("default", "dev", "site", "source")

    def __init__(
        self, dev: Dev, site: Site | None = None, default: Event | None = None, source: "Tensor | None" = None
    ) -> None:
        self.dev = dev
        self.source = source
        self.site = site
        self.default = default


class Dtype(Value):
    """A dtype."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Tensor(Value):
    """A tensor (or, if `maybe`, something that was moved like one).

    Attributes:
        dev: its device, None if unknown.
        birth: how the data that it derives from was made.
        moved: its last explicit move, None if never.
        choice: the device value that decided where it is, when the program named one.
        held: the attribute or container it was stored in.
        bound: the assignment in the frame of its birth or batch that named it.
        batch: the loop over a loader that yielded it.
        lost: the statement that moved a copy and threw it away.
        likely: it exists on some paths only, or its device is what a caller would choose.
    """

    __slots__ = (
        "baked",
        "batch",
        "birth",
        "bound",
        "buffer",
        "choice",
        "dev",
        "expr",
        "held",
        "leaf",
        "likely",
        "lost",
        "maybe",
        "missed",
        "module",
        "moved",
        "rank",
    )  # fmt: skip

    def __init__(self, dev: Dev | None, rank: Rank = None, birth: Event | None = None) -> None:
        self.dev = dev
        self.rank = rank
        self.birth = birth
        self.moved: Event | None = None
        self.choice: Device | None = None
        self.held: Event | None = None
        self.bound: Event | None = None
        self.batch: Event | None = None
        self.lost: Event | None = None
        self.missed: Event | None = None
        self.likely = False
        self.maybe = False
        self.buffer: str | None = None
        self.expr: str | None = None
        self.leaf = True
        self.baked = False
        self.module: Instance | None = None

    def copy(self) -> "Tensor":
        """The same facts under a new identity."""
        other = Tensor(self.dev, self.rank, self.birth)
        other.moved, other.choice, other.held, other.bound = self.moved, self.choice, self.held, self.bound
        other.batch, other.lost, other.likely, other.maybe = self.batch, self.lost, self.likely, self.maybe
        other.missed, other.buffer, other.leaf, other.module = (
            self.missed,
            self.buffer,
            self.leaf,
            self.module,
        )
        return other

    def derive(self, rank: Rank) -> "Tensor":
        """A result on the same device."""
        other = self.copy()
        other.rank = rank
        other.leaf = False
        other.buffer = None
        return other


class Obj(Value):
    """Something with identity and mutable cells, which the state's trail undoes."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells: dict[Any, Any] = {}


class Param(Obj):
    """An `nn.Parameter`: cell "t" holds its tensor; `Module.to` exchanges it in place."""

    __slots__ = ("name", "owner")

    def __init__(self, tensor: Tensor, name: str = "", owner: "Instance | None" = None) -> None:
        super().__init__()
        self.cells["t"] = tensor
        self.name = name
        self.owner = owner

    @property
    def tensor(self) -> Tensor:
        value = self.cells["t"]
        if isinstance(value, Tensor):
            return value
        # one of several, which a move would have changed alike
        known = [o for o in value.options if isinstance(o, Tensor)] if isinstance(value, Alts) else []
        result = known[0].copy() if known else Tensor(None)
        result.dev = None
        return result


Sequence_ = Literal["list", "tuple", "set"]


class Seq(Obj):
    """A list, tuple or set: the items known by position, then what any further item may be."""

    __slots__ = ("birth", "kind")

    def __init__(self, kind: str, items: tuple[Value, ...] = (), rest: Value | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.cells["items"] = items
        self.cells["rest"] = rest
        self.birth: Event | None = None

    @property
    def items(self) -> tuple[Value, ...]:
        value: tuple[Value, ...] = self.cells["items"]
        return value

    @property
    def rest(self) -> Value | None:
        value: Value | None = self.cells["rest"]
        return value


class Dict(Obj):
    """A dict: cells by constant key; `REST` for the values of unknown keys."""

    __slots__ = ("birth",)

    def __init__(self) -> None:
        super().__init__()
        self.birth: Event | None = None


class _Rest:
    def __repr__(self) -> str:
        return "REST"


REST = _Rest()


class Func(Value):
    """A function of the project with the frame in which it was defined."""

    __slots__ = (
        "closure",
        "cls",
        "defaults",
        "file",
        "kind",
        "kwdefaults",
        "module",
        "name",
        "node",
        "opaque",
    )

    def __init__(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, file: SourceFile, module: "Module"
    ) -> None:
        self.node = node
        self.file = file
        self.module = module
        self.closure: Any = None
        self.cls: Class | None = None
        self.defaults: list[Value] = []
        self.kwdefaults: dict[str, Value] = {}
        self.kind = "function"
        self.opaque = False
        self.name = getattr(node, "name", "<lambda>")


class Bound(Value):
    """A method with its object."""

    __slots__ = ("func", "self_value")

    def __init__(self, self_value: Value, func: Value) -> None:
        self.self_value = self_value
        self.func = func


class Method(Value):
    """A method that the analysis knows by name, of an abstract object."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: Value, name: str) -> None:
        self.owner = owner
        self.name = name


class Partial(Value):
    """`functools.partial`."""

    __slots__ = ("args", "func", "kwargs")

    def __init__(self, func: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs


class Ext(Value):
    """A name of an installed package, by its canonical dotted name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Module(Value):
    """A file of the project as an imported module: its globals."""

    __slots__ = ("env", "file", "name", "state", "stores")

    def __init__(self, file: SourceFile, name: str) -> None:
        self.file = file
        self.name = name
        self.env: dict[str, Value] = {}
        self.state = "new"
        self.stores: frozenset[str] | None = None


class Lazy(Value):
    """An import not yet looked at."""

    __slots__ = ("attr", "module", "package")

    def __init__(self, module: str, attr: str | None) -> None:
        self.module = module
        self.attr = attr


class Deferred(Lazy):
    """A function or class at the top of an imported file, made when somebody asks for it."""

    __slots__ = ("node", "owner", "result")

    def __init__(self, node: Any, owner: Module) -> None:
        super().__init__(owner.name, node.name)
        self.node = node
        self.owner = owner
        self.result: Value | None = None


class Class(Value):
    """A class of the project. `mro` has project classes; `external` the canonical outside bases."""

    __slots__ = (
        "bases",
        "body",
        "dataclass",
        "external",
        "file",
        "module",
        "mro",
        "name",
        "node",
        "partial",
        "scope",
    )

    def __init__(self, name: str, node: ast.ClassDef, file: SourceFile, module: Module) -> None:
        self.name = name
        self.node = node
        self.file = file
        self.module = module
        self.bases: list[Value] = []
        self.mro: list[Class] = [self]
        self.external: list[str] = []
        self.body: dict[str, Value] = {}
        self.dataclass: list[tuple[str, Value | None]] | None = None
        self.scope: Any = None
        self.partial = False

    def find(self, name: str) -> "tuple[Class, Value] | None":
        """The class of the hierarchy that defines `name`, and what it defines."""
        for cls in self.mro:
            value = cls.body.get(name)
            if value is not None:
                return cls, value
        return None

    def is_a(self, names: "frozenset[str]") -> bool:
        """Whether an outside base is one of `names`."""
        return any(name in names for name in self.external)


class Instance(Obj):
    """An object: of a project class, or of a class of torch (`builtin`).

    Cells are attributes; the analysis keeps its own facts under keys that start with "#":
    "#reg" (attribute → "param", "buffer", "buffer?", "module"), "#moves" (events), "#hooks" …
    """

    __slots__ = ("birth", "builtin", "cls", "opaque", "uid")

    def __init__(self, cls: Class | None, builtin: str | None, birth: Event | None) -> None:
        super().__init__()
        self.cls = cls
        self.builtin = builtin
        self.birth = birth
        self.opaque = False

    @property
    def class_name(self) -> str:
        return self.cls.name if self.cls is not None else (self.builtin or "object").rpartition(".")[2]


class Super(Value):
    """`super()`: the rest of the hierarchy after `cls`."""

    __slots__ = ("cls", "self_value")

    def __init__(self, cls: Class, self_value: Value) -> None:
        self.cls = cls
        self.self_value = self_value


#: the branches under which an alternative holds: (branching, side)
Tags = frozenset[tuple[object, int]]
NO_TAGS: Tags = frozenset()


class Alts(Value):
    """One of a few values: which one depends on the data.

    `tags` says for each option under which branches it holds, so that alternatives of two variables
    are combined only where both can be true.
    """

    __slots__ = ("options", "tags")

    def __init__(self, options: tuple[Value, ...], tags: tuple[Tags, ...] | None = None) -> None:
        self.options = options
        self.tags = tags if tags is not None else tuple(NO_TAGS for _ in options)


class Native(Value):
    """A Python callable of the analysis itself, such as the `fn` that `_apply` gets."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Any) -> None:
        self.name = name
        self.call = call
