"""A node of `check --nproc-per-node`: torch's own elastic launcher in a process of its own.

Its one argument is JSON: `launcher`, the words for torchrun; `command`, the words of each rank;
`told`, the file for what the launcher saw; `alive`, a pipe that ends with the process that reports.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any


def main(words: Sequence[str]) -> int:
    """Start the ranks of one node and wait for them; returns 0 when all ended well."""
    settings: dict[str, Any] = json.loads(words[0])
    threading.Thread(target=_end_with, args=(settings["alive"],), daemon=True).start()
    # A rank that waits for another in C++ hears nothing; nobody wants to wait for it after Ctrl-C.
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "10")
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    told: dict[str, Any] = {"exits": {}, "trouble": None}
    status = 0
    try:
        config, command, words = run.config_from_args(
            run.parse_args([*settings["launcher"], "--no-python", *settings["command"]])
        )
        elastic_launch(config=config, entrypoint=command)(*words)
    except ChildFailedError as error:
        told["exits"] = {rank: failure.exitcode for rank, failure in error.failures.items()}
        status = 1
    except (SignalException, KeyboardInterrupt):
        status = 130
    except Exception as error:
        told["trouble"] = f"torch's launcher failed: {type(error).__name__}: {error}"
        status = 1
    with open(settings["told"], "w", encoding="utf-8") as stream:
        json.dump(told, stream)
    sys.stdout.flush()
    return status


def _end_with(pipe: int) -> None:
    """End when the process that reports is gone, however it went."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
