"""Where the report of `samedevice lint` goes, and its statistics."""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from samedevice.model.outcome import Outcome


def write(
    outcome: Outcome, options: argparse.Namespace, piped: dict[str, bytes], contents: dict[str, bytes]
) -> None:
    """Write the report where it belongs; fixed standard input and diffs have standard output to themselves.

    Args:
        piped: what came in by standard input, by its name.
        contents: what fixes make of the files.
    """
    from samedevice.report import render

    read = reader({**piped, **contents})
    stream = sys.stdout
    if options.diff or (options.fix and piped):
        from samedevice.cli.lint_fixing import show_changes

        show_changes(piped, contents, diff=options.diff)
        stream = sys.stderr
    if options.statistics:
        table = statistics(outcome)
        if options.format in ("text", "concise") and options.output is None:
            stream.write(table)
            return
        sys.stderr.write(table)
    if options.output is not None and options.output != "-":
        from samedevice.cli.output import write_file

        write_file(options.output, render(outcome, options.format, read=read))
        return
    if options.format in ("text", "concise"):
        from samedevice.cli.output import wants_color, width_of

        text = render(
            outcome,
            options.format,
            color=wants_color(stream),
            width=width_of(stream),
            read=read,
        )
    else:
        text = render(outcome, options.format)
    stream.write(text)
    stream.flush()


def reader(contents: dict[str, bytes]) -> Callable[[str, int | None], Sequence[str] | None] | None:
    """How the report reads source lines: from `contents`, which are not on disk (yet), else from there."""
    if not contents:
        return None
    from samedevice.report.excerpt import Files
    from samedevice.source.decoding import DecodingError, decode
    from samedevice.source.lines import LINE_END
    from samedevice.source.notebook import NotebookError, read_notebook

    on_disk = Files()

    def read(path: str, cell: int | None) -> Sequence[str] | None:
        if path not in contents:
            return on_disk(path, cell)
        try:
            if cell is None:
                return LINE_END.split(decode(contents[path]).text)
            notebook = read_notebook(contents[path])
        except (DecodingError, NotebookError):
            return None
        cells = notebook.cells if notebook is not None else ()
        return next((LINE_END.split(one.source) for one in cells if one.number == cell), None)

    return read


def statistics(outcome: Outcome) -> str:
    """How often each rule was found, the most frequent first."""
    counts = Counter(one.rule for one in outcome.diagnostics)
    fixable = Counter(one.rule for one in outcome.diagnostics if one.fix is not None and one.fix.edits)
    digits = len(str(max(counts.values(), default=0)))
    lines = [
        f"{count:>{digits}}  {rule}" + (f"  ({fixable[rule]} with a fix)" if fixable[rule] else "")
        for rule, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    problems = len(outcome.diagnostics)
    lines.append(
        f"{problems} problem{'s' * (problems != 1)} in {outcome.files} file{'s' * (outcome.files != 1)}"
    )
    return "\n".join(lines) + "\n"
