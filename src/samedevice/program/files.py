"""Which files are the user's: installed packages, torch, the standard library and samedevice are not."""

import os
import site
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from typing import Final

#: kinds of files
SKIP: Final = 0  # torch, the standard library, samedevice, generated code
PACKAGE: Final = 1  # an installed package
USER: Final = 2

#: file name of a code object -> SKIP, PACKAGE or USER, for those asked about so far
kinds: dict[str, int] = {}

#: relative paths of the report start here, wherever the program changes to
START: Final = os.getcwd()


def _with_separator(folders: list[str | None]) -> tuple[str, ...]:
    known = [resolve(f) for f in folders if f for resolve in (os.path.realpath, os.path.abspath)]
    return tuple(dict.fromkeys(os.path.join(f, "") for f in known))


def _torch_folder() -> str | None:
    try:
        spec = find_spec("torch")
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else os.path.dirname(os.path.abspath(spec.origin))


def _folders() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Folders of torch and ourselves, of installed packages, of the standard library."""
    ours: list[str | None] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    torch_folder = _torch_folder()
    if torch_folder is not None:
        beside = os.path.dirname(torch_folder)
        ours += [torch_folder, os.path.join(beside, "torchgen"), os.path.join(beside, "functorch")]
    paths = sysconfig.get_paths()
    installed = [
        paths.get("purelib"),
        paths.get("platlib"),
        *site.getsitepackages(),
        site.getusersitepackages(),
    ]
    return (
        _with_separator(ours),
        _with_separator(installed),
        _with_separator([paths.get("stdlib"), paths.get("platstdlib")]),
    )


_cached_folders: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None = None


def kind_of(filename: str) -> int:
    """SKIP, PACKAGE or USER for a code object's file name."""
    kind = kinds.get(filename)
    if kind is None:
        kind = kinds[filename] = _classify(filename)
    return kind


def _classify(filename: str) -> int:
    global _cached_folders
    if filename.startswith("<"):
        # `<stdin>`, `<ipython-input-3-…>` and `<console>` are the user's; generated code is not.
        return USER if filename.startswith(("<stdin", "<ipython", "<console")) else SKIP
    if _cached_folders is None:
        _cached_folders = _folders()
    ours, installed, standard = _cached_folders
    path = os.path.abspath(filename)
    # typing_extensions puts frames of its own around deprecated functions.
    if path.startswith(ours) or os.path.basename(path) == "typing_extensions.py":
        return SKIP
    # site-packages usually lies inside the standard library's folder, so it is asked first.
    if path.startswith(installed) or _maker_of(path) is not None:
        return PACKAGE
    return SKIP if path.startswith(standard) else USER


def _maker_of(path: str) -> str | None:
    """The installed package that wrote the file for itself, None for any other file.

    torch-geometric writes modules into the folder for temporary files and names them after the module that
    they belong to: `torch_geometric.nn.conv.gcn_conv_GCNConv_propagate_x3k.py`.
    """
    package, dot, _ = os.path.basename(path).removesuffix(".py").partition(".")
    if not dot or not package or not path.startswith(os.path.join(tempfile.gettempdir(), "")):
        return None
    origin = getattr(sys.modules.get(package), "__file__", None)
    return package if isinstance(origin, str) and kind_of(origin) == PACKAGE else None


def package_of(filename: str) -> str | None:
    """Name of the installed package that the file belongs to ("transformers"), None for user code."""
    if kind_of(filename) == USER or _cached_folders is None:
        return None
    path = os.path.abspath(filename)
    for folder in _cached_folders[1]:
        if path.startswith(folder):
            return path[len(folder) :].split(os.sep)[0].removesuffix(".py")
    return _maker_of(path)


def shown(filename: str) -> str:
    """The file's path as reports show it: relative to where the run began, when it lies below."""
    if filename.startswith("<"):
        return filename
    path = os.path.abspath(filename)
    below = path.startswith(os.path.join(START, ""))
    return os.path.relpath(path, START) if below else path
