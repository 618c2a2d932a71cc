"""Pages of the documentation as tests: their files are written, their commands are run.

In a page, a code block with a title is a file; a `console` block is a session, in which each line
that starts with `$ ` is a command and the lines below it are what it prints.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
_NUMBERS = re.compile(r"\b\d+\.\d+(?=[ %,)\n]|s\b)")

#: commands that a page may show without the test running them: they install or need the network
_SHOWN_ONLY = ("pip install ", "git clone ", "cd ", "scripts/", "source ")


@dataclass
class Command:
    """A command of a session, with what the page says that it prints."""

    line: str
    output: list[str] = field(default_factory=list)


def files(page: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    return {m["title"]: m["text"] for m in _BLOCK.finditer(page) if m["title"]}


def session(text: str) -> list[Command]:
    """The commands of a `console` block."""
    commands: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        elif commands:
            commands[-1].output.append(line)
        else:
            raise ValueError(f"a session starts with a command, not with {line!r}")
    return commands


def run(line: str, folder: Path) -> str:
    """What a command prints on both streams, as on a terminal of 80 columns without colour."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
    }
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def play(page: str, folder: Path) -> str:
    """The page with the outputs that its commands have now; its files are written to `folder`."""

    def replaced(block: re.Match[str]) -> str:
        if block["title"]:
            target = folder / block["title"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block["text"], encoding="utf-8")
        if block["kind"] != "console":
            return block[0]
        lines = []
        for command in session(block["text"]):
            lines.append(f"$ {command.line}")
            if command.line.startswith(_SHOWN_ONLY):
                lines += command.output
            else:
                lines += run(command.line, folder).rstrip("\n").splitlines()
        return "```console\n" + "".join(f"{line}\n" for line in lines) + "```"

    return _BLOCK.sub(replaced, page)


def steady(page: str) -> str:
    """The page without what differs between machines: times, and the last digits of losses."""
    return _NUMBERS.sub("#", page)
