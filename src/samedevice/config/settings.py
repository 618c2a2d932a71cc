"""`[tool.samedevice]` of pyproject.toml, or samedevice.toml: found, read, checked."""

import os
from dataclasses import dataclass, field, fields
from typing import Any

from samedevice.config.patterns import Patterns
from samedevice.model.errors import UserError

#: in the order in which they are looked for in each folder
FILE_NAMES = ("samedevice.toml", ".samedevice.toml", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a project says about how it wants to be looked at.

    Attributes:
        select: names of rules and categories to look for; empty means the default ones.
        ignore: names of rules and categories not to look for.
        exclude: patterns of files and folders not to look at, besides the usual ones.
        per_path_ignores: pattern -> names of rules and categories to ignore there.
        respect_gitignore: skip what `.gitignore` files name.
        cache_dir: where `lint` keeps results.
        file: where these settings come from; None for the defaults.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_path_ignores: dict[str, tuple[str, ...]] = field(default_factory=dict)
    respect_gitignore: bool = True
    cache_dir: str | None = None
    file: str | None = None

    @property
    def root(self) -> str:
        """The folder that patterns and relative paths are relative to."""
        return os.path.dirname(os.path.abspath(self.file)) if self.file else os.getcwd()

    def ignored_at(self, path: str) -> frozenset[str]:
        """Names that `per-path-ignores` ignores in the file `path`."""
        if not self.per_path_ignores:
            return frozenset()
        absolute = os.path.abspath(path)
        return frozenset(
            name
            for pattern, names in self.per_path_ignores.items()
            if Patterns((pattern,), self.root).match(absolute)
            for name in names
        )


#: TOML key -> what it must be
KINDS = {
    "select": "a list of strings",
    "ignore": "a list of strings",
    "exclude": "a list of strings",
    "per-path-ignores": "a table from patterns to lists of strings",
    "respect-gitignore": "true or false",
    "cache-dir": "a string",
}


def find_settings(start: str) -> Settings:
    """The settings that hold for `start`, a file or folder: of the nearest file upwards.

    A pyproject.toml without `[tool.samedevice]` says nothing, and the search goes on.

    Raises:
        UserError: the nearest file is broken.
    """
    folder = os.path.abspath(start)
    while True:
        for name in FILE_NAMES:
            candidate = os.path.join(folder, name)
            if os.path.isfile(candidate):
                settings = load_settings(candidate, required=False)
                if settings is not None:
                    return settings
        parent = os.path.dirname(folder)
        if parent == folder:
            return Settings()
        folder = parent


def load_settings(path: str, *, required: bool = True) -> Settings | None:
    """The settings in the file `path`; None when it has none and none are `required`.

    Raises:
        UserError: it cannot be read, is no TOML, or says something that is no setting.
    """
    shown = os.path.relpath(path) if not os.path.isabs(path) or path.startswith(os.getcwd()) else path
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise UserError(f"cannot read the settings in {shown}: {error.strerror}") from None
    in_pyproject = os.path.basename(path) == "pyproject.toml"
    if in_pyproject and not required and b"samedevice" not in data:
        return None
    # Seven milliseconds that only those pay who have settings.
    import tomllib

    try:
        content = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise UserError(f"{shown} is not UTF-8, which TOML must be") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{shown} is not valid TOML: {error}") from None
    prefix = ""
    table: Any = content
    if in_pyproject:
        prefix = "tool.samedevice."
        tool = content.get("tool", {})
        table = tool.get("samedevice") if isinstance(tool, dict) else None
        if table is None and not required:
            return None
        table = {} if table is None else table
    if not isinstance(table, dict):
        raise UserError(f"{shown}: `{prefix.rstrip('.')}` must be a table")
    return checked(table, path, shown, prefix)


def checked(table: dict[str, Any], path: str, shown: str, prefix: str) -> Settings:
    """`table` as settings.

    Raises:
        UserError: an unknown key, or a value of a wrong type.
    """
    values: dict[str, Any] = {"file": path}
    for key, value in table.items():
        if key not in KINDS:
            raise UserError(f"{shown}: unknown setting `{prefix}{key}`{nearest(key)}")
        fault = wrong(key, value)
        if fault is not None:
            where, found = fault
            raise UserError(f"{shown}: `{prefix}{where}` must be {expected(key, where)}, not {found}")
        values[key.replace("-", "_")] = frozen(value)
    assert values.keys() <= {one.name for one in fields(Settings)}
    return Settings(**values)


def nearest(key: str) -> str:
    """A hint at the setting that an unknown `key` was meant to be."""
    from difflib import get_close_matches

    near = get_close_matches(key.replace("_", "-"), KINDS, n=1, cutoff=0.6)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; the settings are {', '.join(f'`{name}`' for name in sorted(KINDS))}"


def wrong(key: str, value: Any) -> tuple[str, str] | None:
    """(path of the part of `value` that has a wrong type, what it is), None when all is right."""
    kind = KINDS[key]
    if kind == "true or false":
        return None if isinstance(value, bool) else (key, described(value))
    if kind == "a string":
        return None if isinstance(value, str) else (key, described(value))
    if kind == "a list of strings":
        return wrong_list(key, value)
    if not isinstance(value, dict):
        return key, described(value)
    for pattern, names in value.items():
        fault = wrong_list(f'{key}."{pattern}"', names)
        if fault is not None:
            return fault
    return None


def wrong_list(where: str, value: Any) -> tuple[str, str] | None:
    """The same for a list of strings at the path `where`."""
    if not isinstance(value, list):
        return where, described(value)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            return f"{where}[{index}]", described(item)
    return None


def expected(key: str, where: str) -> str:
    """What the part at the path `where` of the setting `key` must be."""
    if where.endswith("]"):
        return "a string"
    return KINDS[key] if where == key else "a list of strings"


def described(value: Any) -> str:
    """A value's type in TOML's words."""
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a float",
        str: "a string",
        list: "an array",
        dict: "a table",
    }
    return names.get(type(value), "a date or time")


def frozen(value: Any) -> Any:
    """Lists as tuples."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    return value
