"""torch-geometric on virtual GPUs."""

import inspect
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")

from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of, run

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found() -> None:
    assert_runs_as_on_the_cpu("torch_geometric_graphs")


GRAPHS = """
import torch
import torch_geometric
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric import transforms
from torch_geometric.datasets import FakeDataset, FakeHeteroDataset
from torch_geometric.loader import CachedLoader, DataLoader, PrefetchLoader, RandomNodeLoader
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, to_hetero
from torch_geometric.utils import negative_sampling

torch_geometric.seed_everything(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 2)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


graph = transforms.ToUndirected()(FakeHeteroDataset(1, avg_num_nodes=15, avg_degree=3)[0]).to(device)
model = to_hetero(Net(), graph.metadata()).to(device)
with torch.no_grad():
    model(graph.x_dict, graph.edge_index_dict)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    loss = sum(out.square().mean() for out in model(graph.x_dict, graph.edge_index_dict).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())

steps = [
    transforms.NormalizeFeatures(), transforms.AddSelfLoops(), transforms.ToDevice(device),
    transforms.AddRandomWalkPE(3), transforms.RandomLinkSplit(add_negative_train_samples=False),
]
nodes = FakeDataset(1, avg_num_nodes=30, num_channels=4, task="node")[0]
train, *_ = transforms.Compose(steps)(nodes)
layer = GCNConv(4, 8).to(device)
hidden = layer(train.x, train.edge_index)
edges = torch.cat([train.edge_label_index, negative_sampling(train.edge_index, train.num_nodes, 10)], -1)
labels = torch.cat([train.edge_label, train.edge_label.new_zeros(edges.size(1) - train.edge_label.size(0))])
binary_cross_entropy_with_logits((hidden[edges[0]] * hidden[edges[1]]).sum(-1), labels).backward()

layer = GATConv(4, 2, heads=2).to(device)
many = DataLoader(FakeDataset(6, avg_num_nodes=10, num_channels=4), batch_size=3)
for loader in (PrefetchLoader(many, device=device), CachedLoader(many, device=device)):
    for batch in loader:
        print(layer(batch.x, batch.edge_index).sum().item())
for part in RandomNodeLoader(nodes, num_parts=3):
    part = part.to(device)
    print(layer(part.x, part.edge_index).sum().item())
"""


def test_graphs_of_several_types_transforms_and_loaders_are_the_cpus(tmp_path: Path) -> None:
    script = tmp_path / "graphs.py"
    script.write_text(GRAPHS)
    on_cpu, on_gpu = run(script), run(script, 1)

    assert on_gpu.printed == on_cpu.printed
    assert on_gpu.diagnostics == []


PROGRAM = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, GINConv, global_mean_pool

device = torch.device("cuda")
"""

MISTAKES = {
    "edges made by hand stay on the CPU": (
        "factory-without-device",
        """
data = Data(x=torch.randn(4, 3), y=torch.tensor([0, 1, 0, 1])).to(device)
ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])  # mistake
model = GCNConv(3, 2).to(device)
cross_entropy(model(data.x, ring), data.y).backward()
""",
    ),
    "normalised edges are kept from a call on the CPU": (
        "cached-on-first-device",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 2, cached=True)

    def forward(self, x, edges):
        return self.conv(x, edges)


def describe(model, x, edges):
    with torch.no_grad():
        return model(x, edges).shape


x, edges, model = torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), Net()
describe(model, x, edges)  # mistake
model = model.to(device)
model(x.to(device), edges.to(device)).sum().backward()
""",
    ),
    "weights of the edges are made in forward": (
        "index-on-other-device",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 2)

    def forward(self, data):
        weight = torch.ones(data.num_edges)  # mistake
        return global_mean_pool(self.conv(data.x, data.edge_index, weight), data.batch)


model = Net().to(device)
for data in DataLoader(FakeDataset(6, avg_num_nodes=8, num_channels=3, num_classes=2), batch_size=3):
    data.to(device)  # moves the graph itself, its result is not needed
    cross_entropy(model(data), data.y).backward()
""",
    ),
    "parts of a batch are moved one by one, and one is forgotten": (
        "batch-not-moved",
        """
loader = DataLoader(FakeDataset(4, avg_num_nodes=8, num_channels=3, num_classes=2), batch_size=2)
conv = GINConv(nn.Linear(3, 2)).to(device)
for data in loader:  # mistake
    x, edges, y = data.x.to(device), data.edge_index.to(device), data.y.to(device)
    cross_entropy(global_mean_pool(conv(x, edges), data.batch), y).backward()
""",
    ),
    "one type of nodes gets new features": (
        "factory-without-device",
        """
from torch_geometric.datasets import FakeHeteroDataset
from torch_geometric.nn import HeteroConv, SAGEConv

graph = FakeHeteroDataset(1, avg_num_nodes=20, avg_degree=3)[0].to(device)
graph["v0"].x = torch.rand(graph["v0"].num_nodes, 4)  # mistake
model = HeteroConv({kind: SAGEConv((-1, -1), 4) for kind in graph.edge_types}).to(device)
model(graph.x_dict, graph.edge_index_dict)
""",
    ),
    "a layer is added to a moved model": (
        "module-added-after-move",
        """
data = FakeDataset(1, avg_num_nodes=8, num_channels=3, task="node")[0].to(device)
model = nn.ModuleDict({"first": GCNConv(3, 4)}).to(device)
model["second"] = GCNConv(4, 2)  # mistake
hidden = model["first"](data.x, data.edge_index).relu()
model["second"](hidden, data.edge_index).sum().backward()
""",
    ),
}


@pytest.mark.parametrize(("rule", "more"), MISTAKES.values(), ids=MISTAKES)
def test_the_one_mistake_of_a_program_is_found(rule: str, more: str, tmp_path: Path) -> None:
    source = PROGRAM + more
    diagnostics = found(source, tmp_path)

    assert [(d.rule, d.location.line) for d in diagnostics] == [(rule, line_of(source))]


def test_a_mistake_of_the_package_itself_is_told_with_its_line(tmp_path: Path) -> None:
    from torch_geometric.nn import MeshCNNConv

    if "torch.empty(E4, self.out_channels)" not in inspect.getsource(MeshCNNConv):
        pytest.skip("this torch-geometric makes the tensor where its input is")
    source = (
        PROGRAM
        + """
from torch_geometric.nn import MeshCNNConv

edges = torch.stack([torch.arange(5).repeat_interleave(4), torch.randint(0, 5, (20,))]).to(device)
conv = MeshCNNConv(3, 2).to(device)
conv(torch.rand(5, 3, device=device), edges)  # mistake
"""
    )
    (diagnostic,) = found(source, tmp_path)
    files = [Path(e.location.path).name for e in diagnostic.evidence]

    assert (diagnostic.rule, diagnostic.location.line) == ("factory-without-device", line_of(source))
    assert "`torch.empty` in torch_geometric names no device" in diagnostic.message
    assert files[:2] == ["program.py", "meshcnn_conv.py"]
