"""`samedevice lint`: find device mistakes by reading the code, without running it."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from samedevice.cli import Parser
from samedevice.cli.lint_report import write
from samedevice.config.patterns import Patterns
from samedevice.config.settings import Settings, find_settings, load_settings
from samedevice.lint.cache import Cache, cache_file, default_folder, load_cache
from samedevice.lint.discovery import Discovery, shown
from samedevice.lint.linting import Findings, Linter, place_key
from samedevice.lint.selection import Selection, checked_names
from samedevice.model.diagnostic import Diagnostic
from samedevice.model.errors import UserError
from samedevice.model.outcome import Outcome
from samedevice.report import FORMATS

DESCRIPTION = """\
Find device mistakes by reading Python files and notebooks. Nothing is run, torch
is not needed. Folders are searched recursively; `-` reads standard input.
"""

EPILOG = """\
examples:
  samedevice lint                           everything below this folder
  samedevice lint train.py model.py         these files
  samedevice lint --diff src                the changes that --fix would make
  samedevice lint --fix --unsafe-fixes src  make them, also those to be read afterwards
  samedevice lint --format sarif --output samedevice.sarif .

A problem is silenced where it is reported with a comment:
  x = torch.zeros(3)  # samedevice: ignore[factory-without-device] why it is right

exit status: 0 nothing found, 1 problems found, 2 a file could not be read as Python,
or the command could not run
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = Parser(
        prog="samedevice lint",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: this folder)")
    parser.add_argument(
        "--stdin-filename", metavar="FILE", help="the name of what `-` reads, for reports and settings"
    )
    rules = parser.add_argument_group("rules")
    rules.add_argument(
        "--select", action="append", metavar="RULES", help="look for these only: rules, categories or `all`"
    )
    rules.add_argument("--ignore", action="append", metavar="RULES", help="do not look for these")
    rules.add_argument(
        "--no-ignores", action="store_true", help="show also what suppression comments silence"
    )
    files = parser.add_argument_group("files")
    files.add_argument("--exclude", action="append", metavar="PATTERNS", help="do not look at these paths")
    files.add_argument(
        "--force-exclude", action="store_true", help="not even at those given by name (for pre-commit)"
    )
    files.add_argument("--config", metavar="FILE", help="read the settings here, and nowhere else")
    fixes = parser.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="make the safe fixes")
    fixes.add_argument(
        "--unsafe-fixes", action="store_true", help="with --fix or --diff: the unsafe ones too"
    )
    fixes.add_argument("--diff", action="store_true", help="show what --fix would change, change nothing")
    report = parser.add_argument_group("report")
    report.add_argument(
        "--format", choices=FORMATS, default="text", help="form of the report (default: text)"
    )
    report.add_argument(
        "--output", metavar="FILE", help="write the report to FILE (default: standard output)"
    )
    report.add_argument("--statistics", action="store_true", help="show how often each rule was found")
    work = parser.add_argument_group("work")
    work.add_argument(
        "--jobs", type=positive, metavar="N", help="work in N processes (default: as many as are worth it)"
    )
    work.add_argument("--no-cache", action="store_true", help="neither use nor keep results of earlier runs")
    work.add_argument("--cache-dir", metavar="FOLDER", help="keep results here")
    return parser


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


@dataclass(slots=True)
class Group:
    """Files that share their settings.

    Attributes:
        folders: the folders among the arguments, absolute.
        paths: the files to lint, as they are shown.
        standard_input: the name and contents of what came in there.
    """

    settings: Settings
    folders: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    standard_input: dict[str, bytes] = field(default_factory=dict)


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    options = build_parser().parse_args(argv)
    if options.unsafe_fixes and not (options.fix or options.diff):
        raise UserError("`--unsafe-fixes` goes with `--fix` (make them) or `--diff` (show them)")
    began = time.perf_counter()
    groups = list(find_groups(options).values())
    here = os.getcwd()
    files = sum(len(group.paths) for group in groups)
    bar = progress_bar(files)
    findings: list[Findings] = []
    notes: list[str] = []
    contents: dict[str, bytes] = {}
    before = 0
    for group in groups:
        linter = linter_for(group, options, here)
        if bar is not None:
            linter.progress = lambda done, _, base=before: bar(base + done)
        before += len(group.paths)
        if options.fix or options.diff:
            from samedevice.cli.lint_fixing import fix_group

            found, changed, told = fix_group(linter, group.paths, group.standard_input, options)
            contents.update(changed)
            notes += told
        else:
            found = linter.lint(group.paths, group.standard_input)
        findings.append(found)
    if bar is not None:
        bar(None)
    total = joined(findings)
    notes += [f"{path}: {failure}" for path, failure in total.failures]
    if not files:
        notes.append("no Python files found")
    outcome = Outcome(
        "lint",
        total.diagnostics,
        notes=tuple(notes),
        files=total.files,
        suppressed=total.suppressed,
        seconds=time.perf_counter() - began,
    )
    piped = {path: data for group in groups for path, data in group.standard_input.items()}
    write(outcome, options, piped, contents)
    if total.broken or total.failures:
        return 2
    return 1 if total.diagnostics or (options.diff and contents) else 0


def find_groups(options: argparse.Namespace) -> dict[str | None, Group]:
    """The files of the arguments, by the settings that hold for them.

    Raises:
        UserError: an argument does not exist, or settings are wrong.
    """
    given = load_settings(options.config) if options.config else None
    groups: dict[str | None, Group] = {}
    known: dict[str, Settings] = {}
    excluded = words(options.exclude)
    seen: set[str] = set()
    paths = list(dict.fromkeys(options.paths or ["."]))
    if "-" in paths and paths != ["-"]:
        raise UserError("`-` (standard input) stands alone")
    if options.stdin_filename and paths != ["-"]:
        raise UserError("`--stdin-filename` goes with `-`, which reads standard input")
    for path in paths:
        name = path if path != "-" else options.stdin_filename or "<stdin>"
        folder = os.path.abspath(name if os.path.isdir(name) else os.path.dirname(name) or ".")
        if given is None and folder not in known:
            known[folder] = find_settings(folder)
        settings = given or known[folder]
        group = groups.setdefault(settings.file, Group(settings))
        if path == "-":
            shown_name = name if name == "<stdin>" else shown(name)
            group.standard_input[shown_name] = sys.stdin.buffer.read()
            group.paths.append(shown_name)
            continue
        if os.path.isdir(path):
            group.folders.append(folder)
        patterns = (Patterns(settings.exclude, settings.root), Patterns(excluded, os.getcwd()))
        discovery = Discovery(patterns, settings.respect_gitignore, options.force_exclude, seen)
        group.paths += discovery.find([path])
    return groups


def linter_for(group: Group, options: argparse.Namespace, here: str) -> Linter:
    """The linter of a group's files, under its settings and the command line.

    Raises:
        UserError: a name is neither a rule nor a category.
    """
    settings = group.settings
    select, ignore = words(options.select), words(options.ignore)
    checked_names(select, "--select")
    checked_names(ignore, "--ignore")
    where = shown(settings.file) if settings.file else ""
    checked_names(settings.select, f"{where}: `select`")
    checked_names(settings.ignore, f"{where}: `ignore`")
    for pattern, names in settings.per_path_ignores.items():
        checked_names(names, f'{where}: `per-path-ignores."{pattern}"`')
    # What the command line asks for by name is not ignored because a file says so.
    ignore += [name for name in settings.ignore if name not in select]
    selection = Selection(tuple(sorted(select or settings.select)), tuple(sorted(ignore)))
    tops = tuple(sorted({here, *group.folders}))
    cache = Cache()
    if not (options.no_cache or group.standard_input):
        folder = options.cache_dir or default_folder()
        if settings.cache_dir is not None and not options.cache_dir:
            folder = os.path.join(settings.root, settings.cache_dir)
        cache = load_cache(cache_file(folder, here, tops, selection.key))
    patterns = (Patterns(settings.exclude, settings.root), Patterns(words(options.exclude), here))
    return Linter(
        selection,
        settings,
        tops,
        whole=tuple(group.folders),
        keep_ignores=not options.no_ignores,
        jobs=options.jobs,
        excluded=lambda path: any(one.match(path) for one in patterns),
        cache=cache,
    )


def words(values: Sequence[str] | None) -> list[str]:
    """The values of an option that may be given several times, each with commas in it."""
    split = (word.strip() for value in values or () for word in value.split(","))
    return [word for word in split if word]


def joined(findings: Sequence[Findings]) -> Findings:
    """The findings of all groups as one; a mistake in a file that two of them read is kept once."""
    diagnostics: dict[tuple[object, ...], Diagnostic] = {}
    for found in findings:
        for one in found.diagnostics:
            diagnostics.setdefault(place_key(one), one)
    return Findings(
        tuple(sorted(diagnostics.values(), key=place_key)),
        sum(found.suppressed for found in findings),
        sum(found.files for found in findings),
        tuple(path for found in findings for path in found.broken),
        tuple(failure for found in findings for failure in found.failures),
    )


def progress_bar(files: int) -> Callable[[int | None], None] | None:
    """Shows how far the work is on a terminal, once it takes longer than a second."""
    if not sys.stderr.isatty() or files < 2:
        return None
    from samedevice.cli.lint_progress import Bar

    return Bar(files, sys.stderr)
