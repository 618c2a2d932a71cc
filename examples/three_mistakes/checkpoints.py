"""Saving a run and taking it up again."""

from pathlib import Path
from typing import Any

import torch


def save(path: Path, **parts: Any) -> None:
    """Write the `state_dict` of each part, numbers as they are."""
    state = {name: part.state_dict() if hasattr(part, "state_dict") else part for name, part in parts.items()}
    part_file = path.with_suffix(".part")
    torch.save(state, part_file)
    # A run that is killed while it saves keeps its last good checkpoint.
    part_file.replace(path)


def load(path: Path, device: torch.device, **parts: Any) -> dict[str, Any]:
    """Load the `state_dict` of each part; returns the numbers."""
    state = torch.load(path, map_location=device)
    for name, part in parts.items():
        part.load_state_dict(state.pop(name))
    return state
