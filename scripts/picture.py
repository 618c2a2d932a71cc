"""Draw the README's picture: the demo's own terminal output as an SVG; `--check` only compares.

The text of the picture is compared, not its shapes, which change with rich's releases; how long
the run took is left out.
"""

import argparse
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "assets" / "demo.svg"
COMMAND = ["check", "examples/dies_in_evaluation.py"]


def output() -> str:
    """What the demo prints on a terminal of 80 columns, with colours."""
    environment = os.environ | {"FORCE_COLOR": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", *COMMAND],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 1 or "Traceback" in done.stdout:
        raise SystemExit(f"the demo ended with {done.returncode}:\n{done.stdout}")
    return re.sub(r"(?:\x1b\[[\d;]*m| )*\(\d+\.\d s\)", "", done.stdout)


def svg(text: str) -> str:
    """`text` with its ANSI colours as an SVG that needs nothing from the network."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    console = Console(width=82, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    console.print(
        Text.from_ansi(f"$ samedevice {' '.join(COMMAND)}\n{text}"), soft_wrap=True, highlight=False
    )
    # Without the web fonts that rich asks for: the reader's own monospace font will do.
    form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="samedevice", code_format=form, unique_id="demo")


def letters(picture: str) -> str:
    """The text of an SVG without its blanks, which a change of style within a line splits."""
    pieces = re.findall(r"<text[^>]*>(.*?)</text>", picture, flags=re.DOTALL)
    return "".join(unescape("".join(re.sub(r"<[^>]+>", "", piece) for piece in pieces)).split())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="draw nothing; fail when the picture is out of step"
    )
    args = parser.parse_args()
    drawn = svg(output())
    if args.check:
        if letters(drawn) != letters(PICTURE.read_text(encoding="utf-8")):
            print(f"{PICTURE.relative_to(ROOT)} is out of step; run scripts/picture.py", file=sys.stderr)
            return 1
        return 0
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
