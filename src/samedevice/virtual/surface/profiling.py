"""Profilers: a virtual GPU has no kernels to time, the CPU's events are the ones there are."""

from typing import Any

import torch
from torch.profiler import ProfilerActivity

from samedevice.virtual.patches import Patches

_NOTE = "the profiler saw the CPU alone: virtual GPUs run no kernels"

#: major, minor and patch as NCCL packs them
_NCCL_VERSION = (2 << 32) | (28 << 16) | 9


def install(patches: Patches, activation: Any) -> None:
    """Leave CUDA out of what profilers are asked to record."""
    autograd_profiler = torch.autograd.profiler
    kineto = torch.profiler.profiler._KinetoProfile
    real_profile, real_kineto = autograd_profiler.profile.__init__, kineto.__init__

    def profile_init(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("use_device") == "cuda" or kwargs.get("use_cuda"):
            activation.note(_NOTE)
            kwargs = {**kwargs, "use_device": None}
            kwargs.pop("use_cuda", None)
        real_profile(self, *args, **kwargs)

    def kineto_init(self: Any, *args: Any, **kwargs: Any) -> None:
        real_kineto(self, *args, **kwargs)
        if ProfilerActivity.CUDA in self.activities:
            activation.note(_NOTE)
            self.activities = (set(self.activities) - {ProfilerActivity.CUDA}) or {ProfilerActivity.CPU}
        if self.use_device == "cuda":
            self.use_device = None

    patches.set(autograd_profiler.profile, "__init__", profile_init)
    patches.set(kineto, "__init__", kineto_init)
    patches.set(autograd_profiler.emit_nvtx, "__enter__", lambda self: self)
    patches.set(autograd_profiler.emit_nvtx, "__exit__", lambda self, *exception: False)
    if not hasattr(torch._C, "_nccl_version"):
        patches.set(torch._C, "_nccl_version", lambda: _NCCL_VERSION)
        patches.set(torch._C, "_nccl_version_suffix", lambda: b"")
