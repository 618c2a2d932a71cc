"""Functions that move some of their arguments themselves before they use them.

In C++ the move is a no-op between CPU tensors, so it is made here, where the tag can change.
"""

from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.tags import META, UNSETTLED, Tag, device_index, set_tag

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

#: function → (positional names, the argument that is followed, those that follow)
_FOLLOWERS: Final[dict[Any, tuple[tuple[str, ...], str, frozenset[str]]]] = {
    torch.ctc_loss: (
        ("log_probs", "targets", "input_lengths", "target_lengths"),
        "log_probs",
        frozenset({"targets", "input_lengths", "target_lengths"}),
    ),
}


def follow(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `func` with copies of the followers where the followed argument is."""
    names, followed, followers = _FOLLOWERS[func]
    given = dict(zip(names, args, strict=False)) | kwargs
    leader = given.get(followed)
    if not isinstance(leader, torch.Tensor):
        return engine.plain(func, args, kwargs)
    with torch._C.DisableTorchFunction():
        device = device_index(leader)

        def moved(name: str, value: Any) -> Any:
            if name not in followers or not isinstance(value, torch.Tensor) or device in (META, UNSETTLED):
                return value
            if device_index(value) in (device, META):
                return value
            copy = value.detach().clone()
            set_tag(copy, Tag(device))
            return copy

        args = tuple(
            moved(names[position] if position < len(names) else "", value)
            for position, value in enumerate(args)
        )
        kwargs = {name: moved(name, value) for name, value in kwargs.items()}
    return engine.plain(func, args, kwargs)


TABLE: Final = dict.fromkeys(_FOLLOWERS, follow)
