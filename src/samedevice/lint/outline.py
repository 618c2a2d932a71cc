"""The classes of files that are not run: which outside bases each has, by imports alone."""

import ast

from samedevice.lint import loading
from samedevice.lint.engine_api import Project, SourceFile
from samedevice.lint.run import Frame, Run
from samedevice.lint.values import Ext, Lazy, Module

#: (dotted bases by class name, (module, attribute) by imported name, modules imported with a star)
Outline = tuple[dict[str, list[str]], dict[str, tuple[str, str | None]], list[str]]
EMPTY: Outline = ({}, {}, [])


def bases_of(run: Run, base: ast.expr, frame: Frame) -> list[str] | None:
    """The outside bases of a class expression, None when it is not an import of a file not yet run."""
    if isinstance(base, ast.Name):
        value = frame.locals.get(base.id) or frame.module.env.get(base.id)
        if not isinstance(value, Lazy) or not loading.unseen(run, value):
            return None
        return externals(run, value.module, value.attr or "")
    if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
        value = frame.module.env.get(base.value.id)
        if isinstance(value, Lazy):
            return externals(run, f"{value.module}.{value.attr}" if value.attr else value.module, base.attr)
        if isinstance(value, Module) and value.state == "new":
            return externals(run, value.name, base.attr)
    return None


def externals(run: Run, module: str, name: str, depth: int = 0) -> list[str]:
    """The outside classes that `module.name` derives from, "?name" where that is not known."""
    project = run.project
    key = ("externals", module, name)
    known = project.memo.get(key)
    if isinstance(known, tuple):
        run.reads.update(known[1])
        return list(known[0])
    reads: set[str] = set()
    found = search(project, module, name, reads, 0) if depth == 0 else []
    project.memo[key] = (tuple(found), frozenset(reads))
    run.reads.update(reads)
    return found


def search(project: Project, module: str, name: str, reads: set[str], depth: int) -> list[str]:
    """The same, for a project; `reads` gets the files looked at."""
    if module.partition(".")[0] in loading.KNOWN:
        value = loading.external(f"{module}.{name}")
        return [value.name] if isinstance(value, Ext) else []
    file = project.module(module)
    if file is None or depth > 12:
        return [f"{module}.{name}" if file is None else f"?{name}"]
    reads.add(file.path)
    classes, imports, stars = outline(project, file)
    if name in classes:
        found: list[str] = []
        for base in classes[name]:
            first, _, rest = base.partition(".")
            if base in classes and base != name:
                found += search(project, module, base, reads, depth + 1)
            elif first in imports:
                source, attribute = imports[first]
                if attribute is None:
                    whole = f"{source}.{rest}"
                    found += search(
                        project, whole.rpartition(".")[0], whole.rpartition(".")[2], reads, depth + 1
                    )
                elif rest:
                    inner = f"{source}.{attribute}" + (f".{rest.rpartition('.')[0]}" if "." in rest else "")
                    found += search(project, inner, rest.rpartition(".")[2], reads, depth + 1)
                else:
                    found += search(project, source, attribute, reads, depth + 1)
            else:
                found.append(f"?{base}")
        return found
    if name in imports:
        source, attribute = imports[name]
        return search(project, source, attribute, reads, depth + 1) if attribute else [f"?{name}"]
    for star in stars:
        inside = project.module(star)
        if inside is not None and name in outline(project, inside)[0]:
            return search(project, star, name, reads, depth + 1)
    return [f"?{name}"]


def outline(project: Project, file: SourceFile) -> Outline:
    """The classes and imports at the top of a file, kept for the project."""
    key = ("outline", file.path)
    known = project.memo.get(key)
    if known is not None:
        return known  # type: ignore[return-value]
    try:
        tree = file.parsed()
    except (SyntaxError, ValueError, RecursionError):
        project.memo[key] = EMPTY
        return EMPTY
    result = read(tree, file)
    project.memo[key] = result
    return result


def read(tree: ast.Module, file: SourceFile) -> Outline:
    """The outline of a syntax tree."""
    classes: dict[str, list[str]] = {}
    imports: dict[str, tuple[str, str | None]] = {}
    stars: list[str] = []
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.ClassDef):
            classes[statement.name] = [text for b in statement.bases if (text := dotted(b)) is not None]
        elif isinstance(statement, ast.ImportFrom):
            source = loading.absolute(file, statement.module or "", statement.level)
            for alias in statement.names:
                if alias.name == "*":
                    stars.append(source)
                else:
                    imports[alias.asname or alias.name] = (source, alias.name)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname:
                    imports[alias.asname] = (alias.name, None)
                else:
                    first = alias.name.partition(".")[0]
                    imports[first] = (first, None)
        else:
            for part in ("body", "orelse", "handlers", "finalbody"):
                for inner in getattr(statement, part, []) or []:
                    pending.extend(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])
    return classes, imports, stars


def dotted(node: ast.expr) -> str | None:
    """A name or attribute chain as text."""
    if isinstance(node, ast.Subscript):
        node = node.value
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return None
