"""Workspaces of cuBLAS and TunableOp: what a program sets it reads again, and nothing is tuned."""

from typing import Any, Final

import torch

from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches

#: what PyTorch takes on GPUs of compute capability 9.0, as virtual ones are
WORKSPACE: Final = 4096 * 8 * 1024


def install(patches: Patches, machine: Machine) -> None:
    """Answer at the entry points, which a CPU build lacks and which look for a GPU in a CUDA build."""
    workspaces = dict.fromkeys(("Cublas", "CublasLt"), WORKSPACE)
    state: dict[str, Any] = {
        "enabled": False, "tuning": True, "recording": False, "duration": 30, "iterations": 100, "filename": "",
        "buffer": -1, "tolerances": (False, 1e-5, 1e-5),
    }  # fmt: skip

    def setter(name: str) -> Any:
        return lambda value: state.__setitem__(name, value)

    def getter(name: str) -> Any:
        return lambda: state[name]

    def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
        if insert_device_ordinal:
            head, dot, tail = filename.rpartition(".")
            filename = f"{head}{machine.current}.{tail}" if dot else f"{filename}{machine.current}"
        state["filename"] = filename

    functions: dict[str, Any] = {
        "tunableop_enable": setter("enabled"),
        "tunableop_is_enabled": getter("enabled"),
        "tunableop_tuning_enable": setter("tuning"),
        "tunableop_tuning_is_enabled": getter("tuning"),
        "record_untuned_enable": setter("recording"),
        "record_untuned_is_enabled": getter("recording"),
        "tunableop_set_max_tuning_duration": setter("duration"),
        "tunableop_get_max_tuning_duration": getter("duration"),
        "tunableop_set_max_tuning_iterations": setter("iterations"),
        "tunableop_get_max_tuning_iterations": getter("iterations"),
        "tunableop_set_rotating_buffer_size": setter("buffer"),
        "tunableop_get_rotating_buffer_size": lambda: max(state["buffer"], 0),
        "tunableop_set_numerical_check_tolerances": lambda *values: state.__setitem__("tolerances", values),
        "tunableop_set_filename": set_filename,
        "tunableop_get_filename": getter("filename"),
        "tunableop_get_results": lambda: (),
    }
    for library in workspaces:
        functions[f"set{library}WorkspaceSize"] = lambda size, library=library: workspaces.update(
            {library: size}
        )
        functions[f"get{library}WorkspaceSize"] = lambda library=library: workspaces[library]
        functions[f"reset{library}WorkspaceSize"] = lambda library=library: workspaces.update(
            {library: WORKSPACE}
        )
    for name, function in functions.items():
        patches.set(torch._C, f"_cuda_{name}", function)
