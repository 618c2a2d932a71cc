"""`audit`: every tensor with its path, its place and what it shares."""

import dataclasses
import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import samedevice  # noqa: E402
from samedevice.inventory import Entry, Kind, Role, StrayTensors, audit  # noqa: E402
from samedevice.inventory.gather import objects_of  # noqa: E402

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(4, 4), persistent=False)


class Net(nn.Module):
    table = torch.zeros(3)

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(10, 4)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.emb.weight
        self.pe = torch.zeros(5, 4)
        self.experts = [nn.Linear(4, 4)]
        self.same = [self.blocks[0]]
        self.cache = {"k": [torch.zeros(2)]}
        offset = torch.ones(4)
        self.shift = lambda x: x + offset
        self.scale = functools.partial(torch.mul, torch.ones(4))


class EMA:
    def __init__(self, model: Any) -> None:
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}


def by_path(inventory: Any) -> dict[str, Entry]:
    return {entry.path: entry for entry in inventory.entries()}


def test_every_kind_of_place_is_found_with_its_path() -> None:
    net = Net()

    entries = by_path(audit(net))

    kinds = {path: entry.kind for path, entry in entries.items()}
    assert kinds["net.emb.weight"] is Kind.PARAMETER
    assert kinds["net.blocks[1].mask"] is Kind.BUFFER
    assert kinds["net.pe"] is Kind.ATTRIBUTE
    assert kinds["net.cache['k'][0]"] is Kind.ITEM
    assert kinds["net.shift(offset)"] is Kind.CLOSURE
    assert kinds["net.scale[0]"] is Kind.ITEM
    assert kinds["net.table"] is Kind.CLASS
    assert kinds["net.experts[0].weight"] is Kind.PARAMETER
    assert not any(path.startswith("net.same") for path in kinds), "another way to what is registered"


def test_what_to_reaches_and_what_is_saved_is_told() -> None:
    entries = by_path(audit(net=Net()))

    told = {path: (e.registered, e.module_registered, e.in_state_dict) for path, e in entries.items()}
    assert told["net.emb.weight"] == (True, True, True)
    assert told["net.blocks[0].mask"] == (True, True, False)
    assert told["net.pe"] == (False, True, False)
    assert told["net.experts[0].weight"] == (True, False, False)


def test_what_is_saved_agrees_with_state_dict() -> None:
    net = Net()
    saved = {f"net.{key}" for key in net.state_dict()}

    entries = by_path(audit(net))

    claimed = {e.path.replace("[", ".").replace("]", "") for e in entries.values() if e.in_state_dict}
    assert claimed == saved


def test_tied_weights_and_shared_memory_count_once() -> None:
    net = nn.ModuleDict({"a": nn.Linear(4, 4, bias=False), "b": nn.Linear(4, 4, bias=False)})
    net["b"].weight = net["a"].weight
    window = net["a"].weight.detach()[:2]

    inventory = audit(net, window)

    first, second, view = inventory.entries()
    assert second.tied == (first.path,) and second.shared == ("window",)
    assert view.tied == () and view.shared == (first.path, second.path)
    assert inventory.bytes_by_device() == {"cpu": 64}


def test_gradients_and_optimizer_state_are_named_by_their_parameter() -> None:
    net = nn.Linear(2, 2)
    optimizer = torch.optim.Adam([*net.parameters(), nn.Parameter(torch.zeros(7))])
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()

    entries = by_path(audit(optimizer, net))

    assert entries["net.weight.grad"].kind is Kind.GRADIENT
    assert entries["optimizer.state[net.bias].exp_avg"].shape == (2,)
    assert entries["optimizer.param_groups[0]['params'][2]"].shape == (7,)


def test_dataclasses_dicts_and_loaders_are_looked_into() -> None:
    @dataclasses.dataclass
    class Extra:
        loss: Any
        bank: list

    data = {"x": torch.zeros(2), "extra": Extra(nn.CrossEntropyLoss(torch.ones(3)), [torch.zeros(1)])}
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4)), batch_size=2)

    inventory = audit(data, loader)

    assert {e.path for e in inventory.entries()} == {
        "data['x']",
        "data['extra'].loss.weight",
        "data['extra'].bank[0]",
        "loader.dataset.tensors[0]",
    }
    assert [section.role for section in inventory.sections] == [Role.DATA, Role.LOADER]


def test_roles_are_told() -> None:
    metric = pytest.importorskip("torchmetrics.classification").MulticlassAccuracy(3)
    net = nn.Linear(1, 1)
    average = torch.optim.swa_utils.AveragedModel(net)
    ema = EMA(net)
    loss = nn.MSELoss()

    inventory = audit(net, average, ema, loss, metric)

    assert [s.role for s in inventory.sections] == [Role.MODEL, Role.COPY, Role.COPY, Role.LOSS, Role.METRIC]


def test_metric_states_count_as_reached() -> None:
    metric = pytest.importorskip("torchmetrics.aggregation").MeanMetric()

    entries = by_path(audit(metric))

    assert {
        e.registered for path, e in entries.items() if path in ("metric.mean_value", "metric.weight")
    } == {True}


def test_weight_norm_and_flat_rnn_weights_are_no_plain_attributes() -> None:
    old = nn.utils.weight_norm(nn.Linear(2, 2))
    rnn = nn.LSTM(2, 2)

    entries = by_path(audit(old, rnn))

    assert all(e.kind is Kind.PARAMETER for e in entries.values())


def test_to_dict_is_data() -> None:
    import json

    report = json.loads(json.dumps(audit(net=Net()).to_dict()))

    assert report["sections"][0]["class"] == "Net"
    assert report["sections"][0]["tensors"][0]["path"] == "net.emb.weight"


# -- on virtual GPUs -----------------------------------------------------------------------------


def test_strays_are_listed_with_their_rules() -> None:
    with samedevice.virtual_gpus(1):
        model = Net().to("cuda")
        optimizer = torch.optim.Adam(model.parameters())
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        optimizer.state[model.emb.weight]["exp_avg"] = torch.zeros(10, 4)
        loss = nn.CrossEntropyLoss(torch.ones(10))
        ema = EMA(Net())
        batch = {"x": torch.zeros(2)}

        with pytest.raises(StrayTensors) as caught:
            audit(model, optimizer, loss, ema, batch, expect="cuda:0")

    rules = {stray.entry.path: stray.rule for stray in caught.value.strays}
    assert rules["model.pe"] == "unregistered-tensor"
    assert rules["model.cache['k'][0]"] == "unregistered-tensor"
    assert rules["model.experts[0].weight"] == "module-in-container"
    assert rules["optimizer.state[model.emb.weight].exp_avg"] == "optimizer-state-left-behind"
    assert rules["loss.weight"] == "loss-weight-not-moved"
    assert rules["ema.shadow['emb.weight']"] == "copy-left-behind"
    assert rules["batch['x']"] == "batch-not-moved"
    assert "model.emb.weight" not in rules and not any("step" in path for path in rules)
    assert "`model.pe` is on cpu, not cuda:0: unregistered-tensor" in str(caught.value)


def test_everything_in_its_place_raises_nothing() -> None:
    with samedevice.virtual_gpus(2):
        model = nn.ModuleDict({"a": nn.Linear(2, 2).to("cuda:0"), "b": nn.Linear(2, 2).to("cuda:1")})
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4)))

        audit(model, loader, expect={"model.a": "cuda:0", "model.b": "cuda:1"})
        audit(model, loader, expect="cuda")
        with pytest.raises(StrayTensors, match=r"2 tensors .*\n.*model.b.weight"):
            audit(model, expect={"model": "cuda:0"})


def test_a_tree_of_80_columns_shows_what_differs() -> None:
    with samedevice.virtual_gpus(2):
        model = Net().to("cuda:0")
        model.blocks[2].to("cuda:1")

        text = str(audit(model))

    assert max(map(len, text.splitlines())) <= 80
    assert text == EXPECTED


EXPECTED = """\
model (Net)                           18 tensors cuda:0 +2     f32         804 B
├─ .emb                              1 parameter cuda:0        f32         160 B
│    · tied with model.head.weight
├─ .blocks                             9 tensors cuda:0 cuda:1 f32         432 B
│  ├─ [0] … [1]                        6 tensors cuda:0        f32         288 B
│  └─ [2]                              3 tensors cuda:1        f32         144 B
├─ .head                             1 parameter cuda:0        f32           0 B
│    · tied with model.emb.weight
├─ .pe                       plain attribute 5×4 cpu           f32          80 B
│    ! unregistered-tensor: a plain attribute, not a buffer
├─ .experts            2 unregistered parameters cpu           f32          80 B
│    ! module-in-container: its module is registered nowhere, `.to()` misses it
├─ .cache                                 1 item cpu           f32           8 B
│    ! unregistered-tensor: in a plain container
├─ .shift                              1 closure cpu           f32          16 B
│    ! unregistered-tensor: a closure
├─ .scale                                 1 item cpu           f32          16 B
│    ! unregistered-tensor: in a plain container
└─ .table                      class attribute 3 cpu           f32          12 B
     ! unregistered-tensor: a class attribute
total: 212 B on cpu, 448 B on cuda:0, 144 B on cuda:1"""


def test_a_large_model_folds_and_the_page_escapes_hostile_names() -> None:
    class Hostile(nn.Module):
        pass

    module = Hostile()
    module.layers = nn.ModuleList([nn.TransformerEncoderLayer(8, 2) for _ in range(48)])
    vars(module)["<script>alert(1)</script>"] = torch.zeros(1)

    inventory = audit(module)

    assert len(str(inventory).splitlines()) < 8
    assert "<script>alert" not in inventory._repr_html_() and "&lt;script&gt;" in inventory._repr_html_()


def test_the_objects_of_a_program_are_found_in_its_variables() -> None:
    model = nn.Sequential(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1)

    class Trainer:
        def __init__(self) -> None:
            self.model = model

    space = {
        "layer": model[0],
        "model": model,
        "again": model,
        "optimizer": optimizer,
        "n": 3,
        "cls": nn.Linear,
    }

    assert [name for name, _ in objects_of([space])] == ["model", "optimizer"]
    assert [name for name, _ in objects_of([{"trainer": Trainer()}])] == ["trainer.model"]
