"""The rule `cached-on-first-device`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Holder, Operand, Scene, Step
from samedevice.rules import mending, mending_caches, mending_modules
from samedevice.rules.questions import birth, called, candidates, is_mixed, story, to_gpu, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites

SETUP = (
    "__init__",
    "__post_init__",
    "reset",
    "reset_parameters",
    "build",
    "setup",
    "init_hidden",
    "reset_state",
)


class CachedOnFirstDevice(Rule):
    """Checks for results cached at the first call that stay on the device of that call.

    ## Why is this bad?
    A table that is computed at first use and kept (`if self._cache is None`, a dictionary, `functools.cache`) is
    right for the device of the first call only. After the module moves, or when a second device asks,
    the cache hands out a tensor from the old one.

    ## Example
    ```python
    import torch

    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))
            self.cache = None

        def forward(self, x):
            if self.cache is None:
                self.cache = torch.arange(x.size(-1), device=x.device)
            return self.scale * x + self.cache

    model = Table()
    model(torch.rand(2, 4))
    model.to("cuda")
    print(model(torch.rand(2, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))
            self.cache = None

        def forward(self, x):
            if self.cache is None or self.cache.device != x.device:
                self.cache = torch.arange(x.size(-1), device=x.device)
            return self.scale * x + self.cache

    model = Table()
    model(torch.rand(2, 4))
    model.to("cuda")
    print(model(torch.rand(2, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    The cache needs the device in its key, a test of it, or to be a buffer.
    """

    name = "cached-on-first-device"
    group = "out of Module.to's reach"
    engines = ("check", "lint")
    specificity = 62
    lesson = "A cache is valid for one device: make the device part of its key, compare it, or drop the cache when the module moves."

    def recognise(self, scene: Scene) -> Recognition | None:
        """An attribute that a method other than the constructor filled, a memoized result, a global cache."""
        if not is_mixed(scene):
            return None
        return next((r for r in (self._of(o, scene) for o in candidates(scene)) if r is not None), None)

    def _of(self, culprit: Operand, scene: Scene) -> Recognition | None:
        born = culprit.born
        made = culprit.provenance[-1] if culprit.provenance else None
        name = called(culprit, scene)
        if culprit.memoized and made is not None and made.location is not None:
            return Recognition(
                message=f"`{made.function_name}` keeps its result from the first call, on {culprit.device}, and hands it out on every device",
                location=made.location,
                confidence=Confidence.CERTAIN,
                evidence=story(scene, birth(culprit), (made, "the result is remembered from here on")),
                help="Make the device an argument of the memoized function, so that it is part of the key",
            )
        if culprit.holder is not Holder.ATTRIBUTE:
            return self._global_cache(culprit, scene)
        if culprit.used_before is not None:
            return self._in_package(culprit, culprit.used_before, scene)
        kept = culprit.kept
        method = None if kept is None else kept.function_name
        if kept is None or kept.location is None or method is None or method in SETUP or born is None:
            return None
        if method not in culprit.stored_in:
            return None  # stored from outside of the class: no cache of its own
        move = to_gpu(culprit.host_moves)
        if (
            culprit.holder_is_module
            and move is None
            and not born.explicit_device
            and born.action is Action.CREATED
        ):
            return None  # made on the CPU whatever the device: the factory is the mistake
        if not culprit.holder_is_module and not (born.explicit_device or born.action is Action.DERIVED):
            return None
        return Recognition(
            message=f"`{name}` was cached on {culprit.device} by the first `{method}` and is used on {wanted(scene)} now",
            location=kept.location,
            confidence=Confidence.CERTAIN if move is not None else Confidence.LIKELY,
            evidence=story(
                scene,
                birth(culprit),
                (kept, f"cached here, on {culprit.device}"),
                (move, f"the module moves to {move.device if move else wanted(scene)} here; the cache stays"),
            ),
            help="Compare the cache's device before using it, register it as a buffer, or drop it when the module moves",
        )

    @staticmethod
    def _in_package(culprit: Operand, used: Step, scene: Scene) -> Recognition | None:
        """A package's module that was called before it moved, and keeps what it computed then."""
        move = to_gpu(culprit.host_moves)
        if move is None or used.location is None:
            return None
        return Recognition(
            message=f"`{culprit.holder_class}` of {culprit.holder_package} keeps `{culprit.attribute}` on {culprit.device} from a call before the model moved, and uses it on {wanted(scene)} now",
            location=used.location,
            confidence=Confidence.LIKELY,
            evidence=story(
                scene,
                birth(culprit),
                (used, "the model is used here, before it moves"),
                (move, f"the model moves to {move.device} here; what the package keeps stays"),
            ),
            help=f"Use the model only after it has moved to {wanted(scene)}, or make it forget what it keeps",
            cause=("used-before", used.location.path, used.location.line),
        )

    def _global_cache(self, culprit: Operand, scene: Scene) -> Recognition | None:
        """A module-level container that the function which made the tensor fills."""
        kept = culprit.kept
        if (
            culprit.holder is not Holder.CONTAINER
            or not culprit.in_global
            or kept is None
            or kept.location is None
        ):
            return None
        return Recognition(
            message=f"`{kept.function_name}` cached `{culprit.path}` on {culprit.device} at its first call and hands it out on {wanted(scene)} now",
            location=kept.location,
            confidence=Confidence.LIKELY,
            evidence=story(scene, birth(culprit), (kept, f"cached here, on {culprit.device}")),
            help="Make the device part of the cache's key",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending_caches.device_in_key(sites.at(found.location))
        yield from mending_modules.late_buffer(sites.at(found.location))
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`self.{meeting.name}` is kept from the first call, on {meeting.device}; the module is on {meeting.wanted} now",
            help="Register it as a buffer, or drop it when the module moves",
        )
