"""Sizes of memory as users write them."""

import re

from samedevice.model.errors import UserError


def size_of(text: str) -> int:
    """Bytes of "24GB", "16 GiB", "500M"; powers of 1024.

    Raises:
        UserError: it is no size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise UserError(f"`{text}` is not a size; write 24GB or 16GiB")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))
