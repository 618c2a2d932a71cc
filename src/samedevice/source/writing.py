"""Files written whole: a reader sees the old one or the new one, never a part."""

import errno
import os
import stat
from typing import BinaryIO


def write_atomically(path: str, data: bytes, expected: bytes | None = None, *, durable: bool = True) -> None:
    """Make `data` the contents of `path` at once.

    A symlink stays one (its target is replaced); the file's mode stays, a new file gets the usual one.

    Args:
        expected: what the file must still hold.
        durable: on the disk before the old file goes; a cache needs that not.

    Raises:
        OSError: it cannot be written, or somebody else has changed it; it is then untouched.
    """
    target = os.path.realpath(path)
    if expected is not None:
        with open(target, "rb") as present:
            if present.read() != expected:
                raise OSError(errno.EAGAIN, "the file has changed meanwhile", path)
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        mode = None
    scratch, stream = _scratch(target)
    try:
        with stream:
            stream.write(data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(scratch, mode)
        os.replace(scratch, target)
    except BaseException:
        try:
            os.unlink(scratch)
        except OSError:
            pass
        raise


def _scratch(target: str) -> tuple[str, BinaryIO]:
    """A new file beside `target`; one that a killed process left behind is no obstacle."""
    number = 0
    while True:
        scratch = f"{target}.{os.getpid()}{f'-{number}' if number else ''}.samedevice-new"
        try:
            return scratch, open(scratch, "xb")
        except FileExistsError:
            number += 1
