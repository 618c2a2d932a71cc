"""`to_device`: every kind of data, with type, order, identity and the original kept."""

import copy
import dataclasses
import enum
import functools
import types
from collections import Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from samedevice import to_device  # noqa: E402
from samedevice.runtime import CannotMove  # noqa: E402

pytestmark = pytest.mark.torch

META = torch.device("meta")


def t(*shape: int) -> Any:
    return torch.zeros(*shape or (2,))


def on_meta(*tensors: Any) -> bool:
    return all(tensor.is_meta for tensor in tensors)


Point = namedtuple("Point", "x y")


class Typed(NamedTuple):
    a: Any
    b: int = 3


class CountingPoint(Point):
    """A namedtuple whose constructor takes other arguments."""

    def __new__(cls, x: Any) -> "CountingPoint":
        return super().__new__(cls, x, 7)


def test_dicts_keep_class_order_and_keys() -> None:
    data = {"z": t(), 3: [t()], "a": "text", None: 1, "b": (t(), 2.5)}

    moved = to_device(data, "meta")

    assert list(moved) == ["z", 3, "a", None, "b"]
    assert on_meta(moved["z"], moved[3][0], moved["b"][0])
    assert moved["a"] == "text" and moved["b"][1] == 2.5
    assert not data["z"].is_meta and not data[3][0].is_meta


def test_dict_subclasses_keep_what_makes_them_special() -> None:
    class Attributed(dict):
        """Demands an argument and refuses item assignment."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __setitem__(self, key: Any, value: Any) -> None:
            raise RuntimeError("read only")

    special = Attributed("n")
    dict.update(special, x=t())
    special.extra = t()
    ordered = OrderedDict(b=t(), a=t())
    ordered.move_to_end("b")
    missing = defaultdict(list, x=t())

    moved, ordered_moved, missing_moved, counted = to_device(
        [special, ordered, missing, Counter("aab")], "meta"
    )

    assert type(moved) is Attributed and moved.name == "n" and on_meta(moved["x"], moved.extra)
    assert type(ordered_moved) is OrderedDict and list(ordered_moved) == ["a", "b"]
    assert missing_moved["new"] == [] and on_meta(missing_moved["x"])
    assert counted == Counter("aab")
    assert "new" not in missing


def test_user_containers_and_foreign_mappings_are_rebuilt() -> None:
    class Lazy(Mapping):
        def __init__(self, inner: dict) -> None:
            self._inner = inner

        def __getitem__(self, key: str) -> Any:
            return self._inner[key]

        def __iter__(self) -> Iterator[str]:
            return iter(self._inner)

        def __len__(self) -> int:
            return len(self._inner)

    data = [UserDict(a=t()), UserList([t()]), Lazy({"a": t()}), types.MappingProxyType({"a": t()})]

    moved = to_device(data, "meta")

    assert [type(m) for m in moved] == [type(d) for d in data]
    assert on_meta(moved[0]["a"], moved[1][0], moved[2]["a"], moved[3]["a"])
    assert not any(d[k].is_meta for d, k in zip(data, ["a", 0, "a", "a"], strict=True))


def test_sequences_and_sets_keep_their_class() -> None:
    class Stack(list):
        pass

    stack = Stack([t(), 1])
    stack.label = "s"
    tensor = t()
    data = (stack, deque([t(), 1], maxlen=5), {tensor, 1}, frozenset([tensor]), range(3), slice(1, 2))

    moved = to_device(data, "meta")

    assert type(moved[0]) is Stack and moved[0].label == "s" and on_meta(moved[0][0])
    assert moved[1].maxlen == 5 and on_meta(moved[1][0])
    (inner,) = moved[3]
    assert on_meta(inner) and inner in moved[2] and 1 in moved[2]
    assert moved[4] == range(3) and moved[5] == slice(1, 2)


def test_named_tuples_of_every_kind() -> None:
    largest = torch.max(torch.ones(2, 3), dim=0)

    point, typed, counting, result = to_device(
        (Point(t(), [t()]), Typed(t()), CountingPoint(t()), largest), "meta"
    )

    assert type(point) is Point and on_meta(point.x, point.y[0])
    assert type(typed) is Typed and on_meta(typed.a) and typed.b == 3
    assert type(counting) is CountingPoint and on_meta(counting.x) and counting.y == 7
    assert type(result) is type(largest) and on_meta(result.values, result.indices)


def test_dataclasses_frozen_slotted_and_with_fields_outside_init() -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        x: Any
        n: int = 1
        made: Any = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", [self.x + 1])

    @dataclasses.dataclass(frozen=True, slots=True)
    class Slotted:
        x: Any
        inner: Frozen
        unset: Any = dataclasses.field(init=False)

    @dataclasses.dataclass
    class WithInitVar:
        x: Any
        scale: dataclasses.InitVar[int] = 2

        def __post_init__(self, scale: int) -> None:
            self.scaled = self.x * scale

    original = Slotted(t(), Frozen(t()))

    moved, other = to_device((original, WithInitVar(t())), "meta")

    assert type(moved) is Slotted and on_meta(moved.x, moved.inner.x, moved.inner.made[0])
    assert moved.inner.n == 1 and not hasattr(moved, "unset")
    assert on_meta(other.x, other.scaled)
    assert not original.inner.made[0].is_meta


def test_attrs_and_pydantic_models() -> None:
    attrs = pytest.importorskip("attrs")
    pydantic = pytest.importorskip("pydantic")

    @attrs.frozen
    class Sample:
        x: Any
        derived: Any = attrs.field(init=False)

        def __attrs_post_init__(self) -> None:
            object.__setattr__(self, "derived", self.x + 1)

    class Model(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, frozen=True, extra="allow")
        x: torch.Tensor
        y: int = 4
        _cache: Any = pydantic.PrivateAttr(default=None)

    model = Model(x=t(), more=t())
    model._cache = [t()]

    sample, moved = to_device([Sample(t()), model], "meta")

    assert type(sample) is Sample and on_meta(sample.x, sample.derived)
    assert type(moved) is Model and on_meta(moved.x, moved.more, moved._cache[0])
    assert moved.model_fields_set == {"x", "more"} and moved.y == 4
    assert not model._cache[0].is_meta and not model.more.is_meta


def test_plain_objects_are_copied_only_when_they_hold_tensors() -> None:
    class Scene:
        count = 0

        def __init__(self) -> None:
            type(self).count += 1
            self.boxes = {"a": [t()]}
            self.name = "n"

    class Nothing:
        pass

    class Colour(enum.Enum):
        RED = 1

    scene, nothing, path, array = Scene(), Nothing(), Path("x"), np.zeros(2)

    moved = to_device(
        [scene, nothing, path, array, Colour.RED, len, int, types.SimpleNamespace(x=t())], "meta"
    )

    assert on_meta(moved[0].boxes["a"][0]) and Scene.count == 1
    assert moved[1] is nothing and moved[2] is path and moved[3] is array
    assert moved[4] is Colour.RED and moved[5] is len and moved[6] is int
    assert on_meta(moved[7].x)
    assert not scene.boxes["a"][0].is_meta


def test_one_object_met_twice_is_one_object_in_the_result() -> None:
    tensor, shared = t(), [t()]
    data = {"ids": tensor, "labels": tensor, "a": shared, "b": (shared, types.SimpleNamespace(ids=tensor))}

    moved = to_device(data, "meta")

    assert moved["ids"] is moved["labels"] is moved["b"][1].ids
    assert moved["a"] is moved["b"][0] is not shared


def test_cycles_stay_cycles() -> None:
    @dataclasses.dataclass
    class Node:
        x: Any
        parent: Any = None
        children: list = dataclasses.field(default_factory=list)

    root = Node(t())
    root.children.append(Node(t(), parent=root))
    ring: list = [t()]
    ring.append((ring, {"ring": ring}))
    through_tuple = ring[1]

    moved, moved_ring, moved_tuple = to_device([root, ring, through_tuple], "meta")

    assert moved.children[0].parent is moved and on_meta(moved.children[0].x)
    assert moved_ring[1][0] is moved_ring and moved_ring[1][1]["ring"] is moved_ring
    assert moved_tuple is moved_ring[1]
    assert to_device(through_tuple, "meta")[0][1][1]["ring"][1][0][0].is_meta


def test_what_is_there_already_is_passed_on_but_containers_are_always_new() -> None:
    tensor = t()
    data = {"x": tensor, "y": [tensor]}

    moved = to_device(data, "cpu")

    assert moved["x"] is tensor and moved is not data and moved["y"] is not data["y"]


def test_tensors_of_every_layout() -> None:
    strided = torch.nested.nested_tensor([t(2), t(3)])
    jagged = torch.nested.nested_tensor([t(2), t(3)], layout=torch.jagged)
    sparse = torch.eye(3).to_sparse()
    rows = torch.eye(3).to_sparse_csr()

    moved = to_device([strided.to("cpu"), jagged, sparse, rows, torch.nn.Parameter(t())], "cpu")

    assert moved[0].is_nested and moved[1].layout is torch.jagged
    assert to_device(sparse, "meta").is_meta and to_device(rows, "meta").layout is torch.sparse_csr
    assert to_device(jagged, "meta").is_meta
    assert to_device(torch.nn.Parameter(t()), "meta").requires_grad


def test_moving_is_differentiable_as_to_is() -> None:
    x = torch.ones(2, requires_grad=True)

    moved = to_device({"x": x}, "meta")["x"]

    assert moved.grad_fn is not None


def test_batch_sizes_of_a_packed_sequence_stay_on_the_cpu() -> None:
    packed = torch.nn.utils.rnn.pack_sequence([t(2), t(3)], enforce_sorted=False)

    moved = to_device({"p": packed}, "meta")["p"]

    assert type(moved) is type(packed)
    assert on_meta(moved.data, moved.sorted_indices, moved.unsorted_indices)
    assert not moved.batch_sizes.is_meta


def test_own_to_is_asked_on_a_copy() -> None:
    class InPlace:
        def __init__(self) -> None:
            self.fields = {"x": t()}
            self.lengths = t()
            self.device = "cpu"

        def to(self, device: Any) -> None:
            for name in self.fields:
                self.fields[name] = self.fields[name].to(device)
            self.device = str(device)

    class Batch(dict):
        def to(self, device: Any, non_blocking: bool = False) -> "Batch":
            return Batch({k: v.to(device) for k, v in self.items()})

    class Quantity:
        """Its `.to` converts units."""

        def to(self, unit: str) -> float:
            return {"m": 1.0}[unit]

    in_place, quantity = InPlace(), Quantity()

    moved, batch, kept = to_device([in_place, Batch(x=t()), quantity], "meta")

    assert on_meta(moved.fields["x"]) and moved.device == "meta"
    assert not moved.lengths.is_meta, "its author keeps the lengths where they are"
    assert not in_place.fields["x"].is_meta and in_place.device == "cpu"
    assert type(batch) is Batch and on_meta(batch["x"])
    assert kept is quantity


def test_batch_encodings_are_not_changed_and_repeats_are_copied_once() -> None:
    transformers = pytest.importorskip("transformers")
    ids = t(2, 3)
    encoding = transformers.BatchEncoding({"input_ids": ids, "labels": ids, "extra": [t()], "text": ["a"]})
    output = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=ids, attentions=(ids, t()))

    moved, moved_output = to_device([encoding, output], "meta")

    assert type(moved) is transformers.BatchEncoding and moved["text"] == ["a"]
    assert moved["input_ids"] is moved["labels"] and on_meta(moved["input_ids"], moved["extra"][0])
    assert not encoding["input_ids"].is_meta
    assert moved_output["last_hidden_state"] is moved_output.last_hidden_state is moved["input_ids"]
    assert on_meta(moved_output.attentions[1]) and not output.attentions[1].is_meta


def test_graph_data_and_tensordicts() -> None:
    tg = pytest.importorskip("torch_geometric.data")
    td = pytest.importorskip("tensordict")
    x = t(3, 2)
    graph = tg.Data(x=x, edge_index=torch.zeros(2, 4, dtype=torch.long), extra=[t()], again=x)
    batch = tg.Batch.from_data_list([graph, graph])
    tensors = td.TensorDict({"a": t(3), "b": {"c": t(3)}}, batch_size=[3])

    moved, moved_batch, moved_tensors = to_device((graph, batch, tensors), "meta")

    assert type(moved) is tg.Data and on_meta(moved.x, moved.edge_index, moved.extra[0])
    assert moved.x is moved.again
    assert not graph.x.is_meta and not graph.extra[0].is_meta
    assert type(moved_batch) is type(batch) and on_meta(moved_batch.x, moved_batch.batch)
    assert moved_tensors["b", "c"].is_meta and not tensors["a"].is_meta


def test_partials_move_the_arguments_they_hold() -> None:
    moved = to_device(functools.partial(torch.add, t(), other=t()), "meta")

    assert on_meta(moved.args[0], moved.keywords["other"]) and moved.func is torch.add


@pytest.mark.parametrize(
    ("data", "path", "word"),
    [
        (lambda: {"a": [1, (x for x in [t()])]}, "data['a'][1]", "iterator"),
        (lambda: {"m": torch.nn.Linear(1, 1)}, "data['m']", "module"),
        (lambda: [torch.utils.data.DataLoader([1])], "data[0]", "DataLoader"),
        (lambda: [torch.optim.SGD([torch.nn.Parameter(t())], lr=1)], "data[0]", "SGD"),
        (lambda: Point(1, {"k": {"v": t()}.values()}), "data.y['k']", "dict_values"),
        (lambda: types.SimpleNamespace(a={3: iter([t()])}, b=t()), "data.a[3]", "iterator"),
        (lambda: [np.array([t(), None], dtype=object)], "data[0]", "object array"),
    ],
)
def test_what_cannot_be_rebuilt_is_named_by_its_path(data: Any, path: str, word: str) -> None:
    with pytest.raises(CannotMove) as caught:
        to_device(data(), "meta")

    assert caught.value.path == path
    assert word in str(caught.value) and path in str(caught.value)


def test_an_error_of_a_to_is_told_with_its_path() -> None:
    class Broken:
        def __init__(self) -> None:
            self.x = t()

        def to(self, device: Any, non_blocking: bool = False) -> None:
            raise ValueError("no such place")

    with pytest.raises(CannotMove, match=r"data\['b'\].*Broken.*ValueError: no such place"):
        to_device({"b": Broken()}, "meta")


def test_errors_of_torch_pass_with_a_note_of_the_path() -> None:
    class Stubborn(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.to:
                raise RuntimeError("CUDA error: out of memory")
            return super().__torch_function__(func, types_, args, kwargs or {})

    with pytest.raises(RuntimeError, match="out of memory") as caught:
        to_device({"x": [t().as_subclass(Stubborn)]}, "meta")

    assert any("data['x'][0]" in note for note in caught.value.__notes__)


def test_a_device_that_is_none_of_torch_raises_torchs_own_error() -> None:
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        to_device([], "gpu")


def test_nothing_is_changed_in_place_whatever_is_in_the_data() -> None:
    shared = t()
    data = {"a": [shared, {"b": shared}], "c": (1, [t()]), "d": types.SimpleNamespace(x=[shared])}
    before = copy.copy(data), list(data["a"]), dict(data["a"][1]), list(data["c"][1]), list(data["d"].x)

    to_device(data, "meta")

    after = copy.copy(data), list(data["a"]), dict(data["a"][1]), list(data["c"][1]), list(data["d"].x)
    assert [[id(x) for x in part] for part in before[1:]] == [[id(x) for x in part] for part in after[1:]]
    assert before[0].keys() == after[0].keys() and not shared.is_meta
