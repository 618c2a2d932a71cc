"""A `Scene`: everything known about one device mistake before a rule gives it a name.

Each engine tells what it knows in these words (a run has recorded facts, a crash has live
frames, `lint` has what its analysis shows); rules read the scene and recognise the mistake.
What is unknown is None or empty: with fewer facts rules say less, they never guess.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from samedevice.model.diagnostic import Location


class Kind(StrEnum):
    """What PyTorch refuses."""

    OPERANDS = "operands"  # tensors of one call on different devices
    INDEX = "index"  # an index tensor on a device that indexing does not accept
    GRADIENT = "gradient"  # a gradient on another device than its tensor
    HOST_ONLY = "host-only"  # numpy, pack_padded_sequence lengths, … given a GPU tensor
    PIN = "pin"  # pin_memory of a GPU tensor
    GENERATOR = "generator"  # a generator of another device type
    META = "meta"  # a meta tensor without data was used or copied
    OFFLOAD = "offload"  # a tool refuses to move what it offloaded
    DATA_PARALLEL = "data-parallel"  # DataParallel's source device
    COLLECTIVE = "collective"  # a collective with a tensor on a wrong device
    LOAD = "load"  # deserialising to a device that does not exist
    FORK = "fork"  # CUDA in a forked process
    LEAF = "leaf"  # an optimizer was given what a move left of a parameter
    DTYPE = "dtype"  # operands of different dtypes
    KERNEL = "kernel"  # a kernel of the program's own, launched on another GPU than its tensors'


class Holder(StrEnum):
    """What kind of place holds a tensor."""

    PARAMETER = "parameter"  # a registered parameter of a module
    BUFFER = "buffer"  # a registered buffer of a module
    ATTRIBUTE = "attribute"  # a plain attribute of a module or of another object
    CONTAINER = "container"  # an item of a list, dict, tuple … (see `path`)
    MODULE = "module"  # a registered submodule (what holds it, not a tensor)
    OPTIMIZER_STATE = "optimizer-state"
    LOCAL = "local"  # a local variable
    GLOBAL = "global"  # a module-level variable
    TEMPORARY = "temporary"  # only an intermediate result of an expression
    UNKNOWN = "unknown"


class Action(StrEnum):
    """What happened to a tensor, one step of its provenance."""

    CREATED = "created"  # by a factory: torch.zeros, torch.tensor, nn.Parameter init …
    DERIVED = "derived"  # result of an operation on tensors of the same device
    FROM_NUMPY = "from-numpy"
    LOADED = "loaded"  # torch.load and the like
    BATCHED = "batched"  # came out of a DataLoader
    MOVED = "moved"  # .to/.cuda/.cpu into the place where it is now
    COPIED = "copied"  # deepcopy, clone of a module, replicate
    CACHED = "cached"  # stored into an attribute or container
    DISCARDED_MOVE = "discarded-move"  # a moved copy was made here and thrown away
    ASSIGNED = "assigned"  # `.data =`, setattr, load_state_dict(assign=True)
    RECEIVED = "received"  # a gradient, an argument of a hook


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the failing call's stack, innermost last."""

    location: Location
    function: str
    class_name: str | None = None
    package: str | None = None  # installed package's name, None for user code
    source: str | None = None  # the statement's source text


@dataclass(frozen=True, slots=True)
class Step:
    """One event in a tensor's life.

    Attributes:
        function: qualified name of what did it ("torch.arange", "Tensor.to", "Module.to").
        device: where the tensor is after the step, None if unknown.
        explicit_device: the call named a device itself (`device=…`), True, False or None (unknown).
        expression: source text of the call or statement.
        function_name: name of the function (scope) that contains the step, "<module>" at top level.
        class_name: class whose method contains the step.
        trail: the user's frames at the time, outermost first; () when unknown.
        order: a number that grows with the program's time, 0 when unknown.
        inside: the line of the package that did it, where the user's line only led to it.
    """

    action: Action
    function: str
    location: Location | None = None
    device: str | None = None
    explicit_device: bool | None = None
    expression: str | None = None
    function_name: str | None = None
    class_name: str | None = None
    package: str | None = None  # name of the installed package, if the step is not in user code
    trail: tuple[Frame, ...] = ()
    order: int = 0
    inside: Location | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Where it was decided which device something gets: the end of the way back from a `device` expression.

    Attributes:
        how: "literal" (`"cpu"`, `"cuda"`), "choice" (`a if b else c`), "omitted" (a call left a parameter to
            its default), "table" (a device map), "global" (a module-level variable), "option" (a command-line
            option's default), "follows" (another tensor's or module's device), "unknown".
        expression: the source text that decided.
        name: the variable, parameter or option that carried it.
        function: the function whose parameter was left to its default.
        default: that default's source text.
        steps: the stations on the way, from the use back to the decision.
    """

    how: str
    location: Location
    expression: str = ""
    name: str | None = None
    function: str | None = None
    default: str | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """How a tensor came into the outermost function that knows it by a name of its own.

    Attributes:
        name: what it is called there ("ids", "batch['acts']").
        used: the statement of that function that hands it on.
        bound: the statement that gave it its name, None when that is not known.
        how: "for" (comes out of a loop over data), "assign", "unpack", "item" (taken out of a container by
            an assignment), "slice" (taken out of a tensor in a loop), "call" (made by a call), "parameter", "other".
        source: text of what it was bound to ("batch['acts']", "loader").
        loader: it comes out of a DataLoader.
        moved_beside: what was moved in the same function among what came with it ("x").
        function: name of the function.
    """

    name: str
    used: Step
    bound: Step | None = None
    how: str = "other"
    source: str | None = None
    loader: bool = False
    moved_beside: tuple[str, ...] = ()
    function: str | None = None


@dataclass(frozen=True, slots=True)
class Relative:
    """Another living tensor that has to do with an operand: a moved copy, a neighbour in its container."""

    path: str
    device: str
    holder: Holder
    owner: str | None = None
    born: Step | None = None
    same_data: bool = False  # it was made by moving the operand
    same_source: bool = False  # it was made by moving what the operand is a copy of


@dataclass(frozen=True, slots=True)
class ModuleFact:
    """What is known of an `nn.Module` that takes part.

    Attributes:
        owner: expression or path by which the program reaches it ("model", "model.encoder").
        class_name: its class.
        device: the device of (nearly) all its parameters and buffers, None if mixed or empty.
        registered: False when no module of the program has it as a registered submodule although
            another module holds it (in a list, dict or plain attribute).
        root: path of the outermost module that contains it.
        created: where it was made.
        moves: where `Module.to`/`cuda`/`cpu` ran on it or on a parent, in order of time.
    """

    owner: str
    class_name: str
    device: str | None = None
    registered: bool | None = None
    root: str | None = None
    created: Step | None = None
    moves: tuple[Step, ...] = ()
    is_loss: bool = False
    is_metric: bool = False
    parameters: int = 0
    copied: Step | None = None  # where `copy.deepcopy` made it
    copy_of: str | None = None  # what it was copied from, as the program calls it
    original_moves: tuple[Step, ...] = ()  # moves of the original after the copy
    kept: Step | None = None  # the statement that put it into a list, dict or plain attribute of a module
    keeper: str | None = None  # class of the module that keeps it so
    keeper_path: str | None = None  # where in that module: "self.blocks"
    keeper_moves: tuple[Step, ...] = ()  # moves of that module after the keeping
    joined: Step | None = None  # where it became part of a module that had been moved before
    host_moves: tuple[Step, ...] = ()  # moves of that module before it joined
    root_class: str | None = None
    root_device: str | None = None  # where nearly all of the root's parameters are
    in_forward: str | None = None  # class in whose running `forward` it was made
    replica: bool = False  # one of DataParallel's replicas
    decision: Decision | None = None  # of the device of its last move
    never_moved: bool = False
    moves_attributes: bool = False  # its class overrides `_apply`, so plain attributes may move with it


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor of the failing call.

    Attributes:
        name: the operator's argument name ("mat1", "index", "tensors").
        expression: source text of the argument at the failing call.
        path: how the program reaches it ("self.pe", "model.encoder.pe", "batch['ids']").
        owner: the same in terms of classes ("Net.mask", "EMA.shadow").
        provenance: its events in the order of time; the first is the birth of its data's root.
        module: the module that holds it, when one does.
        zero_dim: True for a tensor without dimensions.
        root: the tensor that a derived one goes back to, with what is known of it; None when it is a root.
        attribute: name of the attribute under which the holder's object has it ("pe").
        host_path: that object ("model.encoder").
        host_moves: moves of the holding module after the tensor was born.
        kept: the statement that stored it in its holder.
        entry: how it came into the program's functions, for data that is handed on.
        discarded: a moved copy of it was made here and thrown away.
        placed: the call that put it explicitly where it is (its last move, or its creation with `device=`).
        decision: where that device was decided.
        relatives: other living tensors that have to do with it.
        shared: all paths under which a module has it as a parameter, when there are several.
        stored_in: names of the methods that store the attribute.
        host_made: where the (non-module) object that holds it was made.
        in_global: it is reached from a module-level variable.
        memoized: the function that made it keeps its results (`functools.cache`).
        holder_package: the installed package whose class holds it as an attribute.
        used_before: the call that used the holding module before it moved, for a package's class.
    """

    name: str
    device: str
    expression: str | None = None
    path: str | None = None
    owner: str | None = None
    holder: Holder = Holder.UNKNOWN
    holder_class: str | None = None
    holder_is_module: bool = False
    module: ModuleFact | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    provenance: tuple[Step, ...] = ()
    requires_grad: bool = False
    zero_dim: bool = False
    root: "Operand | None" = None
    attribute: str | None = None
    host_path: str | None = None
    host_moves: tuple[Step, ...] = ()
    kept: Step | None = None
    entry: Entry | None = None
    discarded: Step | None = None
    placed: Step | None = None
    decision: Decision | None = None
    relatives: tuple[Relative, ...] = ()
    shared: tuple[str, ...] = ()
    stored_in: tuple[str, ...] = ()
    host_made: Step | None = None
    in_global: bool = False
    memoized: bool = False
    holder_package: str | None = None
    used_before: Step | None = None

    @property
    def origin(self) -> "Operand":
        """The tensor that the data goes back to: its root, or itself."""
        return self.root if self.root is not None else self

    @property
    def shown(self) -> str:
        """How to call it in a sentence: what the user wrote, else how the program reaches it."""
        return self.expression or self.path or ("input" if self.name == "self" else self.name)

    @property
    def born(self) -> Step | None:
        """The first known step."""
        return self.provenance[0] if self.provenance else None


@dataclass(frozen=True, slots=True)
class Scene:
    """One device mistake as one engine knows it.

    Attributes:
        operator: what was called, in user's words ("torch.cat", "Linear.forward", "Tensor.numpy").
        exception, message: PyTorch's own.
        raised: where it raises; for `lint` the place where the tensors meet.
        operands: all tensors of the call.
        stray: index into `operands` of the one out of place, None when that cannot be told.
        wanted: the device where the stray belongs, None if unknown.
        anchor: an expression in scope at the stray's mistake that is already in the right place.
        frames: the stack, user code and packages, innermost last.
        modules: modules that take part.
        in_backward: the call ran inside `backward()`.
        gpus: number of GPUs the program sees.
        extra: engine- or kind-specific facts by name ("map_location", "generator_device", …).
    """

    kind: Kind
    operator: str
    exception: str
    message: str
    raised: Location
    operands: tuple[Operand, ...] = ()
    stray: int | None = None
    wanted: str | None = None
    anchor: str | None = None
    frames: tuple[Frame, ...] = ()
    modules: tuple[ModuleFact, ...] = ()
    in_backward: bool = False
    gpus: int = 1
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def stray_operand(self) -> Operand | None:
        """The operand out of place."""
        return None if self.stray is None else self.operands[self.stray]

    @property
    def culprit(self) -> Operand | None:
        """The tensor that the stray's data goes back to: where the mistake is looked for."""
        return None if self.stray is None else self.operands[self.stray].origin
