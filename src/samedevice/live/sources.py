"""The sources of a crashed program, read and never run: names, classes, attributes, calls."""

import ast
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from samedevice.program import bindings as b
from samedevice.program.frames import ancestors, class_of, parent_of, tree_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
#: so many files of one program are looked at; the crash is explained from those on the stack first
MOST_FILES = 48


@dataclass(frozen=True, slots=True)
class Found:
    """A definition or statement and the file it stands in."""

    node: ast.AST
    file: str


@dataclass(slots=True)
class Index:
    """What is looked up in a file again and again, found in one walk.

    Attributes:
        calls: by the last name of what is called.
        writers: statements and calls that may store an attribute, by its name.
    """

    classes: list[ast.ClassDef] = field(default_factory=list)
    calls: dict[str, list[ast.Call]] = field(default_factory=dict)
    writers: dict[str, list[ast.AST]] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: ast.AST | None) -> "Index":
        """The index of a file's tree."""
        index = cls()
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.ClassDef):
                index.classes.append(node)
            elif isinstance(node, ast.Call):
                func = node.func
                name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", None)
                if name is not None:
                    index.calls.setdefault(name, []).append(node)
                for attribute in _written_by_call(node):
                    index.writers.setdefault(attribute, []).append(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = {n.attr for t in targets for n in ast.walk(t) if isinstance(n, ast.Attribute)}
                for attribute in names:
                    index.writers.setdefault(attribute, []).append(node)
        return index


def _written_by_call(node: ast.Call) -> list[str]:
    """Attributes that a call may store: `x.a.append(…)`, `register_buffer("a", …)`, `setattr(x, "a", …)`."""
    func = node.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Attribute):
        return [func.value.attr]
    texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return texts[:1]


@dataclass(slots=True)
class Sources:
    """Files of the user's program, those of the stack first.

    Attributes:
        files: absolute or relative paths, as code objects name them.
        folders: where absolute imports are looked for.
    """

    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    _imports: dict[str, dict[str, tuple[str, str | None]]] = field(default_factory=dict)
    _indexes: dict[str, "Index"] = field(default_factory=dict)
    _heirs: dict[int, list[Found]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[str], roots: Iterable[str] = ()) -> "Sources":
        """The sources around some files: what they import from their own folders is added."""
        found = cls(list(dict.fromkeys(f for f in files if tree_of(f) is not None)), list(roots))
        for file in list(found.files):
            folder = os.path.dirname(os.path.abspath(file))
            while os.path.isfile(os.path.join(folder, "__init__.py")):
                folder = os.path.dirname(folder)
            if folder not in found.folders:
                found.folders.append(folder)
        for file in found.files:
            for module, _ in found.imports(file).values():
                if module and module not in found.files and len(found.files) < MOST_FILES:
                    found.files.append(module)
        return found

    # -- names -------------------------------------------------------------------------------------

    def imports(self, file: str) -> dict[str, tuple[str, str | None]]:
        """Imported name -> (file of the module, or "" for an installed one; name in it or dotted path)."""
        if file in self._imports:
            return self._imports[file]
        names: dict[str, tuple[str, str | None]] = {}
        self._imports[file] = names
        tree = tree_of(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Import):
                for alias in node.names:
                    names[alias.asname or alias.name.partition(".")[0]] = (
                        self.module(alias.name, file, 0) or "",
                        None if alias.asname is None else alias.name,
                    )
            elif isinstance(node, ast.ImportFrom):
                path = self.module(node.module or "", file, node.level) or ""
                for alias in node.names:
                    inner = self.module(
                        f"{node.module}.{alias.name}" if node.module else alias.name, file, node.level
                    )
                    if inner and not (path and self._top(path, alias.name)):
                        names[alias.asname or alias.name] = (inner, None)
                    else:
                        shown = alias.name if path else f"{node.module}.{alias.name}"
                        names[alias.asname or alias.name] = (path, shown)
        return names

    def module(self, name: str, file: str, level: int) -> str | None:
        """The file that `import name` in `file` reads, None for an installed module."""
        if level:
            folder = Path(os.path.abspath(file)).parent
            for _ in range(level - 1):
                folder = folder.parent
            starts = [folder]
        else:
            starts = [Path(f) for f in self.folders] or [Path(os.path.abspath(file)).parent]
        for start in starts:
            base = start.joinpath(*name.split(".")) if name else start
            for candidate in (base.with_suffix(".py"), base / "__init__.py"):
                if (name or candidate.name == "__init__.py") and candidate.is_file():
                    return self.known(str(candidate))
        return None

    def known(self, path: str) -> str:
        """The path under which the file is known already."""
        real = os.path.realpath(path)
        return next((f for f in self.files if os.path.realpath(f) == real), path)

    def qualified(self, node: ast.expr, file: str) -> str | None:
        """The dotted name of a function of an installed module: `F.relu` → "torch.nn.functional.relu"."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        known = self.imports(file).get(node.id)
        if known is None or known[0]:
            return None
        return ".".join([known[1] or node.id, *reversed(parts)])

    def definition(self, node: ast.expr, file: str) -> Found | None:
        """The function or class of the program that an expression names."""
        if isinstance(node, ast.Name):
            return self._defined(node, file)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            known = self.imports(file).get(node.value.id)
            if known is not None and known[0] and known[1] is None:
                return self._top(known[0], node.attr)
            owner = self._defined(node.value, file)
            if owner is not None and isinstance(owner.node, ast.ClassDef):
                return self.method(owner, node.attr)
        return None

    def _defined(self, node: ast.Name, file: str) -> Found | None:
        for scope in ancestors(node):
            if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for inner in scope.body:
                    if (
                        isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                        and inner.name == node.id
                    ):
                        return Found(inner, file)
        known = self.imports(file).get(node.id)
        if known is not None and known[0] and known[1]:
            return self._top(known[0], known[1])
        return self._top(file, node.id)

    def _top(self, file: str, name: str, depth: int = 3) -> Found | None:
        tree = tree_of(file)
        for node in tree.body if tree is not None else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
                return Found(node, file)
        again = self.imports(file).get(name) if depth else None
        if again is not None and again[0] and again[1] and again[0] != file:
            return self._top(again[0], again[1], depth - 1)
        return None

    # -- classes -----------------------------------------------------------------------------------

    def lineage(self, owner: Found) -> list[Found]:
        """The class and its bases, as far as they are written in the program."""
        found: list[Found] = []
        queue = [owner]
        while queue and len(found) < 12:
            current = queue.pop(0)
            if not isinstance(current.node, ast.ClassDef) or current in found:
                continue
            found.append(current)
            queue += [
                base for n in current.node.bases if (base := self.definition(n, current.file)) is not None
            ]
        return found

    def is_module_class(self, owner: Found) -> bool:
        """Whether the class is an `nn.Module` (or a Lightning module)."""
        for current in self.lineage(owner):
            assert isinstance(current.node, ast.ClassDef)
            for base in current.node.bases:
                name = self.qualified(base, current.file) or ""
                last = name.rpartition(".")[2]
                if last in ("Module", "LightningModule", "PreTrainedModel", "Sequential") or name.startswith(
                    "torch.nn."
                ):
                    return True
        return False

    def method(self, owner: Found, name: str) -> Found | None:
        """The method that an instance of the class would run."""
        for current in self.lineage(owner):
            assert isinstance(current.node, ast.ClassDef)
            for node in current.node.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    return Found(node, current.file)
        return None

    def stores(self, owner: Found, name: str) -> list[b.Binding]:
        """Where the class, its bases or its subclasses store `self.name`, empty values left out."""
        family = [*self.lineage(owner), *self.heirs(owner)]
        found = [
            store
            for current in family
            for node in self._index(current.file).writers.get(name, ())
            if is_inside(node, current.node)
            for store in b._stores(node, name, current.file, owner="self")
        ]
        full = [s for s in found if not b.is_empty(s.value)]
        return full or found

    def foreign_stores(self, name: str) -> list[b.Binding]:
        """Where any code stores attribute `name` of any object, empty values left out."""
        return [
            store
            for file in self.files
            for node in self._index(file).writers.get(name, ())
            for store in b._stores(node, name, file, owner=None)
            if not b.is_empty(store.value)
        ]

    def heirs(self, owner: Found) -> list[Found]:
        """Classes of the program derived from the class."""
        if id(owner.node) not in self._heirs:
            self._heirs[id(owner.node)] = [
                Found(node, file)
                for file in self.files
                for node in self.classes(file)
                if node is not owner.node
                and node.bases
                and any(c.node is owner.node for c in self.lineage(Found(node, file)))
            ]
        return self._heirs[id(owner.node)]

    def classes(self, file: str) -> list[ast.ClassDef]:
        """The classes that a file defines."""
        return self._index(file).classes

    def _index(self, file: str) -> Index:
        if file not in self._indexes:
            self._indexes[file] = Index.of(tree_of(file))
        return self._indexes[file]

    def class_around(self, node: ast.AST, file: str) -> Found | None:
        """The class whose method contains the node."""
        definition = class_of(node)
        return None if definition is None else Found(definition, file)

    # -- calls -------------------------------------------------------------------------------------

    def calls(self, *names: str) -> list[Found]:
        """Calls `name(…)` or `….name(…)` in all files, in their order."""
        wanted = dict.fromkeys(names)
        return [
            Found(node, file)
            for file in self.files
            for name in wanted
            for node in self._index(file).calls.get(name, ())
        ]

    def constructions(self, owner: Found) -> list[Found]:
        """Calls that make an instance of the class (or of a class derived from it)."""
        kinds = [owner.node, *(heir.node for heir in self.heirs(owner))]
        names = [kind.name for kind in kinds if isinstance(kind, ast.ClassDef)]
        return [
            call
            for call in self.calls(*names, "cls")
            if (made := self.made_class(call)) is not None and any(made.node is kind for kind in kinds)
        ]

    def made_class(self, call: Found) -> Found | None:
        """The class of which a call makes an instance; `cls(…)` in a class method is its class."""
        assert isinstance(call.node, ast.Call)
        func = call.node.func
        if isinstance(func, ast.Name) and func.id == "cls":
            return self.class_around(call.node, call.file)
        found = self.definition(func, call.file)
        return found if found is not None and isinstance(found.node, ast.ClassDef) else None


def function_around(node: ast.AST) -> Function | None:
    """The function or method around the node."""
    return b.method_of(node)


def is_inside(node: ast.AST, outer: ast.AST) -> bool:
    """`node` is part of `outer`."""
    return node is outer or any(above is outer for above in ancestors(node))


__all__ = ["Found", "Function", "Sources", "function_around", "is_inside", "parent_of"]
