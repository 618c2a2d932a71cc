"""Options of `check` and `profile` that show where the program's models lie."""

import argparse
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from samedevice.model.errors import UserError
from samedevice.program.running import Ending

if TYPE_CHECKING:
    from samedevice.inventory.record import Inventory
    from samedevice.model.outcome import Outcome


def add_options(parser: argparse.ArgumentParser) -> None:
    """`--audit`, `--audit-at`, `--html`."""
    parser.add_argument(
        "--audit",
        action="store_true",
        help="show where the program's models lie, at its end or where it died",
    )
    parser.add_argument(
        "--audit-at",
        type=_place,
        default=None,
        metavar="FILE:LINE",
        help="show it when this line is reached for the first time, as train.py:41",
    )
    parser.add_argument("--html", default=None, metavar="FILE", help="write the report as one page to FILE")


def _place(text: str) -> tuple[str, int]:
    path, _, line = text.rpartition(":")
    if not path or not line.isdigit() or int(line) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a place; write train.py:41")
    return path, int(line)


class Audits:
    """The audits that the options of one run ask for.

    Attributes:
        reached: the line of `--audit-at` was reached.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.at_end = bool(options.audit)
        self.html = None if options.html is None else os.path.abspath(options.html)
        self.place: tuple[str, int] | None = options.audit_at
        self.reached = False
        self.last: tuple[Inventory, str] | None = None
        self._calls: dict[CodeType, int] = {}
        if self.place is not None and not os.path.isfile(self.place[0]):
            raise UserError(f"there is no file `{self.place[0]}` to stop in")
        if self.html is not None and not os.path.isdir(os.path.dirname(self.html)):
            raise UserError(f"cannot write `{options.html}`: there is no such folder")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the program runs: look out for the line of `--audit-at`, and for the end of its `main()`."""
        if self.place is None and not self.at_end and self.html is None:
            yield
            return
        before = sys.gettrace()
        trace = self._tracer()
        sys.settrace(trace)
        threading.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)
            if self.place is not None and not self.reached:
                print(f"samedevice: line {self.place[1]} of {self.place[0]} was not reached", file=sys.stderr)

    def _tracer(self) -> Any:
        """A trace function that costs a call a function, and a call a line in the one file."""
        path = None if self.place is None else os.path.realpath(self.place[0])
        line = 0 if self.place is None else self.place[1]
        inside: dict[str, bool] = {}

        def lines(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line" and frame.f_lineno == line and not self.reached:
                self._stop(frame)
            elif event == "return" and _is_called_by_main(frame):
                self._leave(frame)
            return lines

        def end(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "return":
                self._leave(frame)
            return end

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            name = frame.f_code.co_filename
            known = inside.get(name)
            if known is None:
                known = inside[name] = path is not None and os.path.realpath(name) == path
            if known:
                return lines
            if _is_called_by_main(frame):
                frame.f_trace_lines = False
                return end
            return None

        return trace

    def _leave(self, frame: FrameType) -> None:
        """The models in the variables of `main()` are gone when the program ends."""
        if not self.at_end and self.html is None:
            return
        # A function that is called again and again is a step, not the program.
        calls = self._calls[frame.f_code] = self._calls.get(frame.f_code, 0) + 1
        if calls > 3:
            return
        found = take([frame.f_locals])
        if found is not None and found.sections:
            self.last = found, f"audit at the end of `{frame.f_code.co_name}`"

    def _stop(self, frame: FrameType) -> None:
        if self.place is None:
            return
        self.reached = True
        found = take([frame.f_locals, frame.f_globals])
        if found is not None:
            show(found, f"audit at {self.place[0]}:{self.place[1]}")

    def finish(self, module: ModuleType, ending: Ending) -> "Inventory | None":
        """At the end, while the devices still answer; the inventory for the page, where one is asked for."""
        if not self.at_end and self.html is None:
            return None
        found = of_program(module, ending)
        died = ending.exception is not None and not isinstance(ending.exception, SystemExit)
        title = "audit where the program died" if died else "audit at the program's end"
        if self.last is not None and (found is None or not found.sections):
            found, title = self.last
        if found is not None and self.at_end:
            show(found, title)
        return found

    def write_page(self, outcome: "Outcome", profile: Any, inventory: "Inventory | None", root: str) -> None:
        """The page of `--html`."""
        if self.html is None:
            return
        from samedevice.cli.output import write_file
        from samedevice.report.html import render_page

        write_file(self.html, render_page(outcome, profile, inventory, root=root))


def _is_called_by_main(frame: FrameType) -> bool:
    """A function that the program's top level called."""
    caller = frame.f_back
    return (
        caller is not None
        and caller.f_code.co_name == "<module>"
        and caller.f_globals.get("__name__") == "__main__"
        and frame.f_globals is caller.f_globals
        and frame.f_code.co_name != "<module>"
    )


def of_program(module: ModuleType, ending: Ending) -> "Inventory | None":
    """Where the program's models lie: of `__main__`, and of the frames in which it died."""
    spaces: list[Any] = [vars(module)]
    traceback = ending.exception.__traceback__ if ending.exception is not None else None
    while traceback is not None:
        spaces.append(traceback.tb_frame.f_locals)
        traceback = traceback.tb_next
    return take(spaces)


def take(spaces: list[Any]) -> "Inventory | None":
    """The inventory of what these variables hold; None, with a word about it, when that fails."""
    from samedevice.inventory.gather import objects_of
    from samedevice.inventory.record import Inventory
    from samedevice.inventory.walk import Walker

    try:
        return Inventory(Walker().sections(objects_of(spaces)))
    except Exception as error:  # an object of the program that cannot be looked at
        print(f"samedevice: the audit failed: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def show(inventory: "Inventory", title: str) -> None:
    """Print the table to standard error."""
    from rich.console import Console

    from samedevice.cli.output import wants_color, width_of
    from samedevice.inventory.table import print_inventory

    colour = wants_color(sys.stderr)
    console = Console(
        file=sys.stderr,
        width=width_of(sys.stderr),
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
    )
    console.print(f"samedevice: {title}", markup=False)
    print_inventory(inventory, console)
    console.print()
