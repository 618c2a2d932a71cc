"""The tensors of the failing call as a table, or one below the other where a table is too wide."""

from collections.abc import Sequence

from samedevice.model.diagnostic import Location, TensorFact
from samedevice.report.layout import Line, Span, cells, line_cells, wrap

#: an optimizer's foreach step hands over hundreds of tensors; nobody reads more than this
MOST = 8

TITLE = "tensors of this call"

_SHORT = {
    "float64": "f64",
    "double": "f64",
    "float32": "f32",
    "float": "f32",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "long": "i64",
    "int32": "i32",
    "int": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "complex64": "c64",
    "complex128": "c128",
}


def value(fact: TensorFact) -> str:
    """A tensor in short: `f32[3, 4]`, as much of it as is known."""
    name = (fact.dtype or "").removeprefix("torch.")
    short = _SHORT.get(name, name)
    if fact.shape is None:
        return short
    return f"{short}[{', '.join(map(str, fact.shape))}]"


def choose(tensors: Sequence[TensorFact]) -> list[TensorFact]:
    """At most `MOST` of the tensors in their order: those at fault, then the first of each device."""
    if len(tensors) <= MOST:
        return list(tensors)
    seen: set[str] = set()
    ranked: list[tuple[int, int]] = []
    for index, fact in enumerate(tensors):
        ranked.append((0 if fact.at_fault else 1 if fact.device not in seen else 2, index))
        seen.add(fact.device)
    kept = sorted(index for _, index in sorted(ranked)[:MOST])
    return [tensors[index] for index in kept]


def tensor_table(tensors: Sequence[TensorFact], width: int, indent: str, home: str = "") -> list[Line]:
    """The tensors with a title, the one out of place marked; empty when there are none.

    Where the table is too wide, a place in the file `home` is only a line, then one elsewhere
    only a file name; then the tensors stand one below the other.
    """
    if not tensors:
        return []
    shown = choose(tensors)
    for shorten in (_in_full, _from_home, _by_name):
        lines = _table(shown, [shorten(fact.born, home) for fact in shown], indent)
        if max(map(line_cells, lines)) <= width:
            break
    else:
        lines = [(Span(indent + TITLE, "title"),), *_stacked(shown, width, indent, home)]
    if len(shown) < len(tensors):
        devices = ", ".join(sorted({fact.device for fact in tensors if fact not in shown}))
        more = f"and {len(tensors) - len(shown)} more on {devices}"
        lines += wrap([Span(more, "dim")], width, [Span(indent + "   ")], [Span(indent + "   ")])
    return lines


def _expression(fact: TensorFact) -> str:
    return " ".join(fact.expression.split())


def _in_full(born: Location | None, home: str) -> str:
    return "" if born is None else str(born).rsplit(":", 1)[0]


def _from_home(born: Location | None, home: str) -> str:
    if born is None or born.path != home or born.cell is not None:
        return _in_full(born, home)
    return f"line {born.line}"


def _by_name(born: Location | None, home: str) -> str:
    return _from_home(born, home).rpartition("/")[2]


def _table(tensors: Sequence[TensorFact], places: Sequence[str], indent: str) -> list[Line]:
    rows = [
        (_expression(fact), f"{value(fact)} on {fact.device}".strip(), fact.owner or "", place)
        for fact, place in zip(tensors, places, strict=True)
    ]
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cells, column)) for column in columns]
    # The title stands over the first two columns; what is unknown of every tensor has no column.
    widths[1] = max(widths[1], len(TITLE) - 3 - 2 - widths[0])
    title = [Span(f"{indent}{TITLE:<{3 + widths[0] + 2 + widths[1]}}", "title")]
    for index, name in ((2, "owner"), (3, "made at")):
        if widths[index]:
            widths[index] = max(widths[index], len(name))
            title.append(Span(f"  {name:<{widths[index]}}", "dim"))
    lines = [tuple(title)]
    for fact, row in zip(tensors, rows, strict=True):
        first = "fault" if fact.at_fault else ""
        styles = (first or "code", first, "dim", "path")
        spans = [Span(f"{indent} {'>' if fact.at_fault else ' '} ", "fault")]
        for index, (text, style) in enumerate(zip(row, styles, strict=True)):
            if widths[index]:
                spans += [
                    Span("  " * (index > 0)),
                    Span(text, style),
                    Span(" " * (widths[index] - cells(text))),
                ]
        while not spans[-1].text.strip():
            spans.pop()
        lines.append(tuple(spans))
    return lines


def _stacked(tensors: Sequence[TensorFact], width: int, indent: str, home: str) -> list[Line]:
    lines: list[Line] = []
    for fact in tensors:
        style = "fault" if fact.at_fault else ""
        hang = [Span(indent + "     ")]
        lines += wrap(
            [Span(_expression(fact), style or "code")],
            width,
            [Span(f"{indent} {'>' if fact.at_fault else ' '} ", "fault")],
            hang,
        )
        facts = [Span(f"{value(fact)} on {fact.device}".strip(), style)]
        if fact.owner:
            facts += [Span(f", {fact.owner}", "dim")]
        if place := _from_home(fact.born, home):
            facts += [Span(", made at ", "dim"), Span(place.replace(" ", "\xa0"), "path")]
        lines += wrap(facts, width, hang, hang)
    return lines
