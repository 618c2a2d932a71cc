"""Names from outside: imports between the project's files, and the canonical names of packages."""

import ast
from functools import lru_cache
from typing import Any

from samedevice.lint.engine_api import SourceFile
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import Trail
from samedevice.lint.values import UNKNOWN, Deferred, Dtype, Ext, Lazy, Module, Unknown, Value

#: packages whose names the analysis knows; their sources are never followed, even when at hand
KNOWN = frozenset(
    "torch numpy torchvision torchaudio torchmetrics lightning pytorch_lightning ignite builtins math copy functools "
    "dataclasses itertools typing collections os sys json random time argparse logging pathlib abc warnings re enum "
    "contextlib tqdm pandas scipy sklearn matplotlib".split()
)

DTYPES = frozenset(
    "float16 float32 float64 bfloat16 half float double int8 int16 int32 int64 uint8 int long short bool complex64 complex128 "
    "cfloat cdouble float8_e4m3fn float8_e5m2 qint8 quint8 uint16 uint32 uint64".split()
)

#: where a class or function is defined → its public name
CANONICAL_PREFIXES = (
    ("torch.nn.modules.module.", "torch.nn."),
    ("torch.nn.functional.", "torch.nn.functional."),
    ("torch.nn.parameter.", "torch.nn."),
    ("torch.nn.modules.", "torch.nn."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.utils.data.sampler.", "torch.utils.data."),
    ("torch._tensor.", "torch."),
    ("torch.functional.", "torch."),
    ("torch.autograd.function.", "torch.autograd."),
    ("torch.nn.parallel.data_parallel.", "torch.nn."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.", "torch.nn.parallel."),
)


@lru_cache(maxsize=4096)
def external(name: str) -> Value:
    """A name of an installed package."""
    if name.startswith(("torch.nn.modules.", "torch.utils.data.data", "torch.")):
        for prefix, public in CANONICAL_PREFIXES:
            if name.startswith(prefix):
                rest = name[len(prefix) :]
                if "." in rest and prefix == "torch.nn.modules.":
                    rest = rest.rpartition(".")[2]
                if rest and (prefix != public):
                    return Ext(public + rest)
    if name == "torch.nn.parallel.DataParallel":
        return Ext("torch.nn.DataParallel")
    if name[6:] in DTYPES and name.startswith("torch."):
        return Dtype(name[6:])
    return Ext(name)


def absolute(file: SourceFile, module: str, level: int) -> str:
    """The dotted name that a `from … import` means."""
    if not level:
        return module
    parts = (file.module_name or "").split(".")
    drop = level - 1 if file.is_package else level
    base = parts[: len(parts) - drop] if drop else parts
    return ".".join([*[p for p in base if p], *([module] if module else [])])


def find(run: Run, name: str) -> Module | None:
    """The project's module of that name, not yet run."""
    if name in run.modules:
        return run.modules[name]
    if not name or name.partition(".")[0] in KNOWN:
        return None
    file = run.project.module(name)
    if file is None:
        return None
    module = run.modules[name] = Module(file, name)
    return module


def load(run: Run, module: Module) -> Module:
    """Run a module's top level once."""
    if module.state != "new" or not run.loads:
        return module
    module.state = "running"
    if len(run.modules) > 60 or (run.shallow and len(run.modules) > 25):
        module.state = "opaque"
        return module
    run.reads.add(module.file.path)
    from samedevice.lint import engine

    engine.run_module(run, module)
    module.state = "ready"
    return module


def import_name(run: Run, frame: Frame, name: str, whole: str | None = None) -> Value:
    """`import name`: a project module or an external name."""
    module = find(run, name)
    if module is not None:
        return Lazy(name, None)
    if (
        whole
        and whole != name
        and run.project.module(whole) is not None
        and name.partition(".")[0] not in KNOWN
    ):
        return Lazy(name, None)
    return external(name)


def import_from(run: Run, module: str, name: str) -> Value:
    """`from module import name`, looked at when it is used."""
    top = module.partition(".")[0]
    if top in KNOWN:
        return external(f"{module}.{name}")
    return Lazy(module, name)


def import_star(run: Run, frame: Frame, name: str) -> None:
    """`from name import *`."""
    module = find(run, name)
    if module is None:
        if name in ("torch.nn", "torch"):
            return
        return
    load(run, module)
    for key, value in module.env.items():
        if not key.startswith("_"):
            run.trail.write(frame.locals, key, value)


def force(run: Run, value: Any, cells: dict[str, Any], name: str) -> Value:
    """Resolve a lazy import at its first use."""
    if not isinstance(value, Lazy):
        result: Value = value
        return result
    if isinstance(value, Deferred):
        # Whatever branch asks first: the function is the same one ever after.
        cells[name] = defined = define(run, value)
        return defined
    if not run.loads and unseen(run, value):
        return Unknown(value.attr or value.module)
    resolved = resolve(run, value)
    run.trail.write(cells, name, resolved)
    return resolved


def unseen(run: Run, lazy: Lazy) -> bool:
    """Whether resolving an import would have to run another file."""
    for name in (lazy.module, f"{lazy.module}.{lazy.attr}" if lazy.attr else ""):
        module = find(run, name)
        if module is not None:
            return module.state == "new"
    return False


def define(run: Run, value: Deferred) -> Value:
    """Make the function or class, as its file's top level does."""
    if value.result is None:
        from samedevice.lint import classes

        value.result = Unknown(value.node.name)
        frame = Frame(value.owner, None, (), None, 0)
        frame.locals = value.owner.env
        make = classes.make_class if isinstance(value.node, ast.ClassDef) else classes.make_function
        trail, run.trail = run.trail, Trail()
        run.frames.append(frame)
        try:
            value.result = make(run, value.node, frame)
        finally:
            run.frames.pop()
            run.trail = trail
    return value.result


def resolve(run: Run, lazy: Lazy) -> Value:
    if lazy.attr is None:
        module = find(run, lazy.module)
        return load(run, module) if module is not None else external(lazy.module)
    module = find(run, lazy.module)
    if module is not None:
        load(run, module)
        value = module.env.get(lazy.attr)
        if value is not None:
            return force(run, value, module.env, lazy.attr)
        inner = find(run, f"{lazy.module}.{lazy.attr}")
        if inner is not None:
            return load(run, inner)
        return Unknown(lazy.attr)
    inner = find(run, f"{lazy.module}.{lazy.attr}" if lazy.module else lazy.attr)
    if inner is not None:
        return load(run, inner)
    return external(f"{lazy.module}.{lazy.attr}" if lazy.module else lazy.attr)


def module_attribute(run: Run, module: Module, name: str) -> Value:
    """An attribute of an imported project module."""
    load(run, module)
    value = module.env.get(name)
    if value is not None:
        return force(run, value, module.env, name)
    inner = find(run, f"{module.name}.{name}")
    if inner is not None:
        return load(run, inner)
    return UNKNOWN if module.state == "ready" else Unknown(name)
