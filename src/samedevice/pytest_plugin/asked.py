"""How many virtual GPUs a test asks for: by a parameter, by the marker, by the fixture."""

from typing import Any, Final

from samedevice.model.errors import UserError

#: the name of the marker, of the fixture and of the ini option
NAME: Final = "virtual_gpus"


def number_of(value: Any, where: str) -> int:
    """A number of GPUs from what a user wrote; 0 is none.

    Raises:
        UserError: it is no such number; `where` says who asked.
    """
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise UserError(f"{where} takes a number of GPUs (0 for none), not {value!r}")
    return number


def asked_by(item: Any, default: int) -> int | None:
    """The number that a test asks for, None when it takes what the session has.

    Args:
        item: the test.
        default: how many GPUs all tests have.

    Raises:
        UserError: what it asks for is no number.
    """
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if NAME in parameters:
        return number_of(parameters[NAME], f"the parameter `{NAME}`")
    marker = item.get_closest_marker(NAME)
    if marker is None:
        return 1 if not default and NAME in getattr(item, "fixturenames", ()) else None
    words = [*marker.args, *(marker.kwargs[key] for key in marker.kwargs if key in ("n", "count"))]
    if len(words) != len(marker.args) + len(marker.kwargs) or len(words) > 1:
        raise UserError(f"the marker `{NAME}` takes one number of GPUs, as `@pytest.mark.{NAME}(2)`")
    return number_of(words[0], f"the marker `{NAME}`") if words else default or 1
