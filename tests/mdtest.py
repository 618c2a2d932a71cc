"""Cases in Markdown: sections with a Python block, `# error: [rule] "text"` comments, and a `fixed` block."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)[ ]*(.*)$")
EXPECTED = re.compile(r"#\s*error:\s*\[([\w-]+)\](?:\s*\"([^\"]*)\")?")


@dataclass(frozen=True)
class Case:
    """One section of a case file.

    Attributes:
        files: code by file name; a block without a name is `case.py`.
        fixed: what `case.py` becomes when all fixes are applied, None when the section does not say.
    """

    title: str
    files: dict[str, str]
    fixed: str | None
    line: int

    @property
    def expected(self) -> set[tuple[str, int, str, str]]:
        """(file, line, rule, text) of each `# error:` comment."""
        return {
            (name, number, rule, text)
            for name, code in self.files.items()
            for number, line in enumerate(code.splitlines(), 1)
            for rule, text in EXPECTED.findall(line)
        }


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a Markdown file, in order."""
    title, files, fixed, start = path.stem, {}, None, 1
    block: list[str] | None = None
    info = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if block is not None:
            if line.rstrip() == "```":
                code = "\n".join(block) + "\n"
                if info == "fixed":
                    fixed = code
                else:
                    files[info or "case.py"] = code
                block = None
            else:
                block.append(line)
        elif fence is not None and fence.group(1) == "python":
            block, info = [], fence.group(2).strip()
        elif line.startswith("#"):
            if files:
                yield Case(title, files, fixed, start)
            title, files, fixed, start = line.lstrip("# "), {}, None, number
    if files:
        yield Case(title, files, fixed, start)
