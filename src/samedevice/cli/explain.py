"""`samedevice explain`: explain a pasted message, a traceback or a whole log."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from samedevice.cli import Parser
from samedevice.cli.output import wants_color, width_of, write_file
from samedevice.live.answer import catalogue_diagnostic
from samedevice.live.found import FoundError
from samedevice.live.search import find_errors
from samedevice.live.sentences import language_from, say
from samedevice.model.diagnostic import Confidence, Diagnostic, Location, Raised, Severity
from samedevice.model.errors import UserError
from samedevice.model.outcome import Outcome
from samedevice.report import FORMATS, render


@dataclass(frozen=True, slots=True)
class Story:
    """What the sources tell of an error.

    Attributes:
        sources: whether there were any.
    """

    diagnostic: Diagnostic | None = None
    sources: bool = False


DESCRIPTION = """\
Explain PyTorch's device errors: what the message means, which tensor it names and
why that may be the healthy one, the usual causes and how to tell them apart, how to
write it right. With the sources at hand it names the line where the mistake is made.
"""

EPILOG = """\
examples:
  samedevice explain "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
  samedevice explain slurm-4711.out
  python train.py 2>&1 | samedevice explain -
  samedevice explain --root ~/project --lang de job.log

A log may be long, coloured, from several ranks at once, from a notebook, from pytest.
Neither torch nor a GPU is needed.

exit status: 0 no device error found, 1 found and explained, 2 could not run
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = Parser(
        prog="samedevice explain",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "text",
        nargs="*",
        metavar="FILE|MESSAGE",
        help="a file, `-` for standard input (the default), or the message itself",
    )
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="DIR",
        help="folder with the program's sources; may be given again (default: the paths of the traceback)",
    )
    parser.add_argument(
        "--no-sources", action="store_true", help="read no sources, explain the message alone"
    )
    parser.add_argument(
        "--lang", choices=("en", "de"), default=None, help="language of the explanation (default: from LANG)"
    )
    parser.add_argument("--all", action="store_true", help="show the rarer causes, too")
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="form of the answer (default: text)"
    )
    parser.add_argument("--output", default=None, metavar="FILE", help="write the answer to FILE")
    return parser


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    options = build_parser().parse_args(list(words))
    language = language_from(options.lang, dict(os.environ))
    for root in options.root:
        if not Path(root).is_dir():
            raise UserError(f"there is no folder `{root}`")
    data, name = _input(options.text)
    errors = find_errors(data)
    stories = _stories(errors, options.root, options)
    diagnostics = _diagnostics(errors, stories, name, language)
    if options.format == "text":
        _write_text(errors, stories, name, options, language)
    else:
        text = render(Outcome(command="explain", diagnostics=tuple(diagnostics)), options.format)
        _write(text, options.output)
    return 1 if errors else 0


def _input(words: Sequence[str]) -> tuple[bytes | str, str]:
    """(text, how to call it): of a file, of standard input, or the words themselves."""
    if not words or list(words) == ["-"]:
        if sys.stdin is None or sys.stdin.closed:
            raise UserError("there is no standard input; name a file, or give the message in quotes")
        if sys.stdin.isatty():
            print("samedevice: paste the message or traceback, then press Ctrl-D", file=sys.stderr)
        return sys.stdin.buffer.read(), "<stdin>"
    word = " ".join(words)
    path = Path(word)
    try:
        if path.is_file() or path.is_fifo() or path.is_char_device():
            return path.read_bytes(), word
        if path.is_dir():
            raise UserError(f"`{word}` is a folder; name a log, and the sources by `--root`")
    except OSError as error:
        # A long message is no valid file name; a short one that is a file must be readable.
        if path.parent.exists() and len(word) < 250 and " " not in word:
            raise UserError(f"cannot read `{word}`: {error.strerror or error}") from None
    except ValueError:
        pass
    if len(words) == 1 and " " not in word.strip() and "\n" not in word:
        raise UserError(f"there is no file `{word}`; a message is given in quotes")
    return word, "<message>"


def _stories(errors: Sequence[FoundError], roots: Sequence[str], options: argparse.Namespace) -> list[Story]:
    """For each error its cause as the sources show it, and whether sources were at hand."""
    if options.no_sources or not any(error.frames for error in errors):
        return [Story() for _ in errors]
    from samedevice.live.points import find_files
    from samedevice.live.postmortem import explain_found

    stories = []
    for error in errors:
        files = find_files(error.frames, roots)
        try:
            found = explain_found(error, roots) if files else None
            stories.append(Story(_with_lint(found, error, files) if files else None, bool(files)))
        except Exception as fault:
            print(
                f"samedevice: the sources could not be read ({type(fault).__name__}: {fault})",
                file=sys.stderr,
            )
            stories.append(Story(None, bool(files)))
    return stories


def _with_lint(found: Diagnostic | None, error: FoundError, files: Mapping[str, str]) -> Diagnostic | None:
    """The story, with what the device-flow analysis says of the same sources.

    Where both name the same line, it is the likely cause; where reading the traceback told nothing, a
    problem whose story ends on the failing line does.
    """
    place = error.place
    if place is None or place.path not in files:
        return found
    if found is not None and found.confidence is not Confidence.POSSIBLE:
        return found
    from samedevice.lint.engine_api import SourceFile, lint_files

    sources = [
        SourceFile(path, Path(path).read_text(encoding="utf-8")) for path in dict.fromkeys(files.values())
    ]
    try:
        problems = lint_files(sources)
    except (SyntaxError, ValueError, RecursionError, OSError):
        return found
    if found is not None:
        agrees = any(_same_line(p.location, found.location) for p in problems)
        return replace(found, confidence=Confidence.LIKELY) if agrees else found
    failing = Location(files[place.path], place.line)
    for problem in problems:
        if problem.severity is Severity.ERROR and any(
            _same_line(e.location, failing) for e in problem.evidence[-1:]
        ):
            raised = Raised(failing, error.exception or "RuntimeError", error.match.text, error.count)
            return replace(
                problem, confidence=Confidence.LIKELY, raised=raised, count=error.count, ranks=error.ranks
            )
    return None


def _same_line(one: Location, other: Location) -> bool:
    return one.line == other.line and Path(one.path).resolve() == Path(other.path).resolve()


def _diagnostics(
    errors: Sequence[FoundError], stories: Sequence[Story], name: str, language: str
) -> list[Diagnostic]:
    return [
        story.diagnostic if story.diagnostic is not None else catalogue_diagnostic(error, name, language)
        for error, story in zip(errors, stories, strict=True)
    ]


def _write_text(
    errors: Sequence[FoundError],
    stories: Sequence[Story],
    name: str,
    options: argparse.Namespace,
    language: str,
) -> None:
    from samedevice.report.excerpt import Files
    from samedevice.report.explanation import explanation_lines
    from samedevice.report.layout import Line, Span, plain, prose, wrap

    stream = sys.stdout
    width = 80 if options.output else width_of(stream)
    where = say("meant").of(language) if name == "<message>" else f"`{name}`"
    lines: list[Line] = []
    for error, story in zip(errors, stories, strict=True):
        if lines:
            lines += [(), (Span("─" * min(width, 80), "dim"),), ()]
        lines += explanation_lines(
            error,
            language,
            width=width,
            read=Files(),
            all_causes=options.all,
            diagnostic=story.diagnostic,
            sources=story.sources,
        )
    if errors:
        key = "found-one" if len(errors) == 1 else "found"
        lines.append(())
        if len(errors) > 1:
            lines += wrap(prose(say("first-error").filled(count=str(len(errors))).of(language)), width)
        lines += wrap(
            prose(say(key).filled(count=str(len(errors)), where=where).of(language), "bad", "bad"), width
        )
    else:
        lines += wrap(prose(say("nothing").filled(where=where).of(language), "good", "good"), width)
        lines += wrap(prose(say("nothing-help").of(language), "dim"), width)
    if not options.output and wants_color(stream):
        from samedevice.report.terminal import colored

        text = colored(lines)
    else:
        text = plain(lines)
    _write(text, options.output)


def _write(text: str, output: str | None) -> None:
    if output is None or output == "-":
        sys.stdout.write(text)
    else:
        write_file(output, text)
