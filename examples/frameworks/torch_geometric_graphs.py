"""Node classification, graph classification and link prediction with torch-geometric."""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch_geometric import seed_everything, transforms
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import FakeDataset, FakeHeteroDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GAE,
    GATv2Conv,
    GCNConv,
    GINConv,
    HeteroConv,
    SAGEConv,
    TopKPooling,
    TransformerConv,
    global_mean_pool,
)
from torch_geometric.utils import dropout_edge, k_hop_subgraph, negative_sampling, to_dense_batch

seed_everything(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Nodes(nn.Module):
    """One layer of each kind."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = GCNConv(features, 8, cached=False)
        self.second = SAGEConv(8, 8)
        self.third = GATv2Conv(8, 4, heads=2, dropout=0.1)
        self.last = TransformerConv(8, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        edge_index, _ = dropout_edge(edge_index, 0.1, training=self.training)
        x = self.first(x, edge_index).relu()
        x = self.second(x, edge_index).relu()
        x = self.third(x, edge_index).relu()
        return self.last(x, edge_index)


class Graphs(nn.Module):
    """A pooled graph network."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv = GINConv(nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, 16)))
        self.pool = TopKPooling(16, 0.5)
        self.head = nn.Linear(16, classes)

    def forward(self, data: Batch) -> torch.Tensor:
        x = self.conv(data.x, data.edge_index).relu()
        x, _, _, batch, _, _ = self.pool(x, data.edge_index, batch=data.batch)
        return self.head(global_mean_pool(x, batch, size=data.num_graphs))


def nodes() -> None:
    data = FakeDataset(1, avg_num_nodes=60, num_channels=8, num_classes=3, task="node")[0]
    data = transforms.Compose(
        [transforms.NormalizeFeatures(), transforms.RandomNodeSplit(num_val=10, num_test=10)]
    )(data)
    data = data.to(device)
    model = Nodes(8, 3).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(5):
        model.train()
        optimizer.zero_grad()
        scores = model(data.x, data.edge_index)
        loss = cross_entropy(scores[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = model(data.x, data.edge_index).argmax(-1) == data.y
    around, _, _, _ = k_hop_subgraph(0, 1, data.edge_index)
    print("nodes", loss.item(), right[data.test_mask].sum().item(), around.tolist())


def graphs() -> None:
    loader = DataLoader(
        FakeDataset(24, avg_num_nodes=12, num_channels=6, num_classes=2), batch_size=8, shuffle=True
    )
    model = Graphs(6, 2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for data in loader:
        data = data.to(device)
        optimizer.zero_grad()
        loss = cross_entropy(model(data), data.y)
        loss.backward()
        optimizer.step()
    dense, mask = to_dense_batch(data.x, data.batch)
    print("graphs", loss.item(), tuple(dense.shape), mask.sum().item(), data.to_data_list()[0].x.sum().item())


def links() -> None:
    split = transforms.RandomLinkSplit(
        is_undirected=True, split_labels=True, add_negative_train_samples=False
    )
    data = transforms.ToDevice(device)(FakeDataset(1, avg_num_nodes=40, num_channels=8, edge_dim=0)[0])
    training, _, testing = split(data)
    model = GAE(GCNConv(8, 4)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        hidden = model.encode(training.x, training.edge_index)
        negative = negative_sampling(training.edge_index, hidden.size(0))
        positive = model.decode(hidden, training.pos_edge_label_index, sigmoid=False)
        scores = torch.cat([positive, model.decode(hidden, negative, sigmoid=False)])
        loss = binary_cross_entropy_with_logits(
            scores, (torch.arange(len(scores), device=device) < len(positive)).float()
        )
        loss.backward()
        optimizer.step()
    hidden = model.encode(testing.x, testing.edge_index).detach()
    print("links", loss.item(), model.recon_loss(hidden, testing.pos_edge_label_index).item())


def kinds() -> None:
    data = FakeHeteroDataset(1, num_node_types=2, num_edge_types=3, avg_num_nodes=20)[0].to(device)
    layer = HeteroConv({kind: SAGEConv((-1, -1), 4) for kind in data.edge_types}).to(device)
    out = layer(data.x_dict, data.edge_index_dict)
    print("kinds", {kind: values.sum().item() for kind, values in sorted(out.items())})


def by_hand() -> None:
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    batch = Batch.from_data_list(
        [Data(x=torch.eye(4), edge_index=ring), Data(x=torch.ones(4, 4), edge_index=ring)]
    )
    batch = batch.to(device)
    degrees = batch.x.new_zeros(batch.num_nodes).index_add_(0, batch.edge_index[0], batch.x.new_ones(8))
    print("by hand", degrees.tolist(), batch.ptr.tolist())


nodes()
graphs()
links()
kinds()
by_hand()
