"""Edits of caches: the device becomes part of the key."""

import ast
from collections.abc import Iterator

from samedevice.model.fix import Edit, Fix
from samedevice.rules.mending import MOST_DEVICES, enclosing, fix, is_path
from samedevice.rules.sites import Function, Site, Source, device_argument, own_nodes, parameters, stores
from samedevice.source import edits

TITLE = "Make the device part of the cache's key"


def device_in_key(site: Site | None) -> Iterator[Fix]:
    """`cache[key] = value` with the device on which the value was made in the key, wherever the cache is asked."""
    function = None if site is None else enclosing(site)
    statement = None if site is None else site.statement
    if site is None or function is None or not isinstance(statement, ast.Assign):
        return
    cache = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(cache, ast.Subscript):
        return
    keys = keys_of(site.source, function, ast.unparse(cache.value))
    if not keys or len({ast.unparse(k) for k in keys}) != 1:
        return
    named = assigned_once(function, keys)
    places = keys if named is None else [named]
    for device in devices_made_on(site, statement)[:MOST_DEVICES]:
        if all(site.at(place).has(device) for place in places):
            yield from fix(TITLE, [e for place in places for e in with_device(site, place, device)])


def keys_of(source: Source, function: Function, cache: str) -> list[ast.expr]:
    """The keys by which a function asks a cache that nobody else asks; none when it is used in another way."""
    if not is_path(cache):
        return []
    inside = {id(n) for n in own_nodes(function)}
    found: list[ast.expr] = []
    for node in ast.walk(source.tree):
        loaded = isinstance(getattr(node, "ctx", None), ast.Load)
        if not (loaded and isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) == cache):
            continue
        user = source.parents.get(node)
        key: ast.expr | None = None
        if isinstance(user, ast.Subscript) and user.value is node:
            key = user.slice
        elif (
            isinstance(user, ast.Compare)
            and len(user.ops) == 1
            and isinstance(user.ops[0], (ast.In, ast.NotIn))
        ):
            key = user.left
        elif isinstance(user, ast.Attribute):
            call = source.parents.get(user)
            asked = isinstance(call, ast.Call) and call.func is user
            if asked and user.attr == "clear":
                continue
            if (
                asked
                and isinstance(call, ast.Call)
                and user.attr in ("get", "setdefault", "pop")
                and call.args
            ):
                key = call.args[0]
        if key is None or id(node) not in inside or isinstance(key, (ast.Slice, ast.Starred)):
            return []
        found.append(key)
    return found


def assigned_once(function: Function, keys: list[ast.expr]) -> ast.expr | None:
    """What a key's name is bound to, when it is bound once and is nothing but a key."""
    name = keys[0].id if isinstance(keys[0], ast.Name) else None
    if name is None or name in parameters(function) or len(stores(function).get(name, ())) != 1:
        return None
    read = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    if len([n for n in read if n.id == name]) != len(keys):
        return None
    for node in own_nodes(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return node.value
    return None


def devices_made_on(site: Site, statement: ast.stmt) -> list[str]:
    """The expressions that name the device in the block that fills the cache; no literal tells two apart."""
    block = site.source.block(statement)
    named = [
        text
        for part in block[: block.index(statement) + 1]
        for call in ast.walk(part)
        if isinstance(call, ast.Call) and (text := device_argument(call)) is not None
    ]
    return [d for d in dict.fromkeys(named) if is_path(d) and d not in ("None", "True", "False")]


def with_device(site: Site, key: ast.expr, device: str) -> list[Edit | None]:
    """A key and a device as one tuple."""
    source = site.source.places
    start, end = source.start(key), source.end(key)
    text = source.text[start:end]
    if isinstance(key, ast.Tuple):
        inner = text.removesuffix(")").rstrip() if text.startswith("(") else text
        if "\n" in text or "\r" in text or inner.endswith(",") or not key.elts:
            return [None]
        if text.startswith("(") and not text.endswith(")"):
            return [None]
        if text.startswith("("):
            return [source.edit(site.path, end - 1, end - 1, f", {device}")]
    user = site.source.parents.get(key)
    if isinstance(user, ast.Subscript) and user.slice is key:
        return [source.edit(site.path, end, end, f", {device}")]
    return list(edits.wrap(site.path, site.text, key, "(", f", {device})"))
