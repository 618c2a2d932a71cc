"""The table of `docs/to_device.md`: what each function for moving data keeps and loses.

Every cell is run; the table in the page must say what comes out.
"""

import dataclasses
import importlib.util
import types
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from samedevice import to_device  # noqa: E402

pytestmark = pytest.mark.torch

PAGE = Path(__file__).parents[2] / "docs" / "to_device.md"
META = torch.device("meta")
Pair = namedtuple("Pair", "x y")


def movers() -> dict[str, Callable[[Any], Any]]:
    """Those of the five that are installed."""
    found: dict[str, Callable[[Any], Any]] = {"samedevice": lambda data: to_device(data, META)}
    if importlib.util.find_spec("accelerate"):
        from accelerate.utils import send_to_device

        found["accelerate"] = lambda data: send_to_device(data, META)
    if importlib.util.find_spec("lightning_fabric"):
        from lightning_fabric.utilities import move_data_to_device

        found["lightning"] = lambda data: move_data_to_device(data, META)
    if importlib.util.find_spec("ignite"):
        from ignite.utils import convert_tensor

        found["ignite"] = lambda data: convert_tensor(data, META)
    package = importlib.util.find_spec("torchtnt")
    if package is not None and package.submodule_search_locations:
        # The package as a whole asks for tensorboard and pkg_resources; this module of it does not.
        file = Path(package.submodule_search_locations[0]) / "utils" / "device.py"
        spec = importlib.util.spec_from_file_location("torchtnt_device", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found["torchtnt"] = lambda data: module.copy_data_to_device(data, META)
    return found


def t() -> Any:
    return torch.zeros(2)


class Named(dict):
    def __init__(self, name: str, **items: Any) -> None:
        super().__init__(**items)
        self.name = name


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any


@dataclasses.dataclass
class Late:
    x: Any
    y: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.y = self.x + 1


@dataclasses.dataclass
class Checked:
    x: Any
    made: int = 0

    def __post_init__(self) -> None:
        self.made += 1


class InPlace:
    def __init__(self) -> None:
        self.items = {"x": t()}

    def to(self, device: Any, **kwargs: Any) -> "InPlace":
        for name in self.items:
            self.items[name] = self.items[name].to(device)
        return self


def numbers_and_text(move: Any) -> bool:
    moved = move({"a": t(), "n": 3, "s": "text", "b": b"bytes", "none": None})
    return moved["a"].is_meta and (moved["n"], moved["s"], moved["b"], moved["none"]) == (
        3,
        "text",
        b"bytes",
        None,
    )


def named_tuple(move: Any) -> bool:
    moved = move(Pair(t(), [t()]))
    return type(moved) is Pair and moved.x.is_meta and moved.y[0].is_meta


def default_dict(move: Any) -> bool:
    moved = move(defaultdict(list, x=t()))
    return moved["x"].is_meta and moved["new"] == []


def dict_with_own_constructor(move: Any) -> bool:
    moved = move(Named("n", x=t()))
    return type(moved) is Named and moved.name == "n" and moved["x"].is_meta


def ordered_dict(move: Any) -> bool:
    data = OrderedDict(b=t(), a=t())
    data.move_to_end("b")
    moved = move(data)
    return type(moved) is OrderedDict and list(moved) == ["a", "b"] and moved["a"].is_meta


def set_of_tensors(move: Any) -> bool:
    return next(iter(move({t()}))).is_meta


def frozen_dataclass(move: Any) -> bool:
    return move(Frozen(t())).x.is_meta


def late_field(move: Any) -> bool:
    moved = move(Late(t()))
    return moved.x.is_meta and moved.y.is_meta


def no_second_post_init(move: Any) -> bool:
    moved = move(Checked(t()))
    return moved.x.is_meta and moved.made == 1


def attrs_class(move: Any) -> bool:
    attrs = pytest.importorskip("attrs")
    return move(attrs.make_class("A", ["x"], frozen=True)(t())).x.is_meta


def pydantic_model(move: Any) -> bool:
    pydantic = pytest.importorskip("pydantic")
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    return move(pydantic.create_model("P", __config__=config, x=(torch.Tensor, ...))(x=t())).x.is_meta


def plain_object(move: Any) -> bool:
    return move(types.SimpleNamespace(x=t())).x.is_meta


def packed_sequence(move: Any) -> bool:
    moved = move({"p": torch.nn.utils.rnn.pack_sequence([torch.zeros(3), torch.zeros(2)])})["p"]
    return moved.data.is_meta and not moved.batch_sizes.is_meta


def repeated_tensor(move: Any) -> bool:
    x = t()
    moved = move({"ids": x, "labels": x})
    return moved["ids"].is_meta and moved["ids"] is moved["labels"]


def cycle(move: Any) -> bool:
    ring: list[Any] = [t()]
    ring.append(ring)
    moved = move(ring)
    return moved[0].is_meta and moved[1] is moved


def original_untouched(move: Any) -> bool:
    transformers = pytest.importorskip("transformers")
    own, encoding = InPlace(), transformers.BatchEncoding({"x": t()})
    moved = move({"own": own, "encoding": encoding})
    done = moved["own"].items["x"].is_meta and moved["encoding"]["x"].is_meta
    return done and not own.items["x"].is_meta and not encoding["x"].is_meta


def generator_told(move: Any) -> bool:
    try:
        moved = move({"x": [(x for x in [t()])]})
    except Exception as error:
        return "['x'][0]" in str(error)
    return moved is None


ROWS: dict[str, Callable[[Any], bool]] = {
    "numbers, text, bytes and None beside tensors": numbers_and_text,
    "namedtuple": named_tuple,
    "`OrderedDict`": ordered_dict,
    "`defaultdict` keeps its default": default_dict,
    "dict subclass with its own constructor": dict_with_own_constructor,
    "set of tensors": set_of_tensors,
    "frozen dataclass": frozen_dataclass,
    "dataclass field with `init=False`": late_field,
    "`__post_init__` does not run again": no_second_post_init,
    "attrs class": attrs_class,
    "pydantic model": pydantic_model,
    "plain object that holds tensors": plain_object,
    "`PackedSequence` (batch sizes stay on the CPU)": packed_sequence,
    "one tensor twice is copied once": repeated_tensor,
    "cycle": cycle,
    "the original is untouched (`BatchEncoding`, a `.to` in place)": original_untouched,
    "what cannot move is named by its path": generator_told,
}


def outcome(check: Callable[[Any], bool], move: Any) -> str:
    try:
        return "yes" if check(move) else "no"
    except pytest.skip.Exception:
        raise
    except Exception as error:
        return type(error).__name__


def documented() -> dict[str, dict[str, str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    header, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows if row[0] in ROWS}


@pytest.mark.parametrize("row", ROWS)
def test_the_table_of_the_page_is_what_comes_out(row: str) -> None:
    found = {name: outcome(ROWS[row], move) for name, move in movers().items()}

    said = documented()[row]

    assert {name: said[name] for name in found} == found


def test_the_page_has_every_row_and_ours_are_all_yes() -> None:
    table = documented()

    assert set(table) == set(ROWS)
    assert {row["samedevice"] for row in table.values()} == {"yes"}
