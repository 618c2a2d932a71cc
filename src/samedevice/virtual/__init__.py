"""Virtual GPUs: programs for CUDA run on the CPU, with CUDA's device rules."""

from samedevice.virtual.gpus import virtual_gpus

__all__ = ["virtual_gpus"]
