"""What a child process needs to know to have its parent's virtual GPUs."""

import json
from dataclasses import asdict, dataclass
from typing import Final

#: the environment variable that hands the settings on
VARIABLE: Final = "SAMEDEVICE_INHERIT"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a process enters virtual GPUs.

    Attributes:
        count, on_mismatch, gpu_memory, max_batches, exact: as for `virtual_gpus`.
        folder: where it leaves what it finds; None when nobody reads it.
        owner: the process that reads it and takes it away; 0 when that is somebody else's business.
        start: the folder that relative paths of the report start from.
        standing: it may be asked where it stands.
    """

    count: int = 1
    on_mismatch: str = "raise"
    gpu_memory: int | None = None
    max_batches: int | None = None
    exact: bool = False
    folder: str | None = None
    owner: int = 0
    start: str | None = None
    standing: bool = False

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Settings | None":
        """The settings that the variable holds; None for anything else."""
        try:
            data = json.loads(text)
            return cls(**data) if isinstance(data, dict) else None
        except (ValueError, TypeError):
            return None
