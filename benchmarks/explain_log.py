"""How much processor time `samedevice explain` takes for a log of 20 MB, and how it grows with the log.

    python benchmarks/explain_log.py [MEGABYTES]

Prints seconds for an unrelated log, one with an error at its end, one whose lines all look
suspicious, and the ratio of twice the size to the size (2.0 is linear).
"""

import random
import sys
import time
from collections.abc import Callable

from samedevice.live.search import find_errors

ERROR = """Traceback (most recent call last):
  File "/home/u/train.py", line 12, in <module>
    out = model(x)
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""


def plain(chance: random.Random) -> str:
    return f"2026-05-01 12:00:{chance.randrange(60):02d},123 INFO trainer: step {chance.randrange(9**6)} loss {chance.random():.4f}\n"


def coloured(chance: random.Random) -> str:
    return f"\x1b[32m{chance.randrange(100):3d}%\x1b[0m|####      | {chance.randrange(999)}/999 [00:01<00:09, 99.1it/s]\r"


def suspicious(chance: random.Random) -> str:
    return f"[rank{chance.randrange(8)}]: WARNING Expected all tensors of device type cuda to be contiguous, Error {chance.random():.6f}\n"


def log(line: Callable[[random.Random], str], size: int) -> str:
    chance = random.Random(1)
    block = "".join(line(chance) for _ in range(20_000))
    return (block * (size // len(block) + 1))[:size]


def seconds(text: str) -> float:
    began = time.process_time()
    find_errors(text)
    return time.process_time() - began


def main() -> None:
    size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 20_000_000
    find_errors(ERROR)
    for name, text in (
        ("unrelated log", log(plain, size)),
        ("error at the end", log(plain, size) + ERROR),
        ("error in every 20th kB", log(plain, 20_000).join([ERROR] * (size // 20_000))),
        ("progress bars, colours", log(coloured, size)),
        ("every line suspicious", log(suspicious, size)),
        ("one line without end", log(plain, size).replace("\n", " ") + ERROR),
    ):
        whole = seconds(text)
        half = seconds(text[: len(text) // 2])
        print(
            f"{name:24} {len(text) / 1e6:5.1f} MB {whole:6.2f} s   twice the size: {whole / half:4.2f} times the time"
        )


if __name__ == "__main__":
    main()
