"""Programs with one planted cost each, marked `# here: rule`, and the same programs put right."""

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))
loader = DataLoader(data, batch_size=8, pin_memory=True)
loss_function = nn.CrossEntropyLoss()

"""

#: name → (with the cost, put right)
PROGRAMS: dict[str, tuple[str, str]] = {
    "a constant moved in every step": (
        """\
scale = torch.rand(4)
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    loss = loss_function(model(x) * scale.to(device), y)  # here: transfer-in-loop
    loss.backward()
    optimizer.step()
""",
        """\
scale = torch.rand(4).to(device)
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    loss = loss_function(model(x) * scale, y)
    loss.backward()
    optimizer.step()
""",
    ),
    "a round trip through the CPU": (
        """\
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    scores = model(x).cpu().sort(dim=-1).values
    loss = scores.to(device).sum()  # here: transfer-in-loop
    loss.backward()
    optimizer.step()
""",
        """\
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    scores = model(x).sort(dim=-1).values
    loss = scores.sum()
    loss.backward()
    optimizer.step()
""",
    ),
    "the loss read in every step": (
        """\
total = 0.0
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()  # here: sync-in-loop
    print(total)
""",
        """\
total = 0.0
for epoch in range(4):
    running = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.detach()
    total += running.item()
    print(total, running)
""",
    ),
    "a tensor asked for its truth": (
        """\
for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    loss = loss_function(model(x), y)
    if torch.isnan(loss):  # here: sync-in-loop
        break
    loss.backward()
    optimizer.step()
""",
        """\
for step, (x, y) in enumerate(loader):
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    loss = loss_function(model(x), y)
    if step % 4 == 3 and torch.isnan(loss):
        break
    loss.backward()
    optimizer.step()
""",
    ),
    "the loss printed in every step": (
        """\
for step in range(12):
    x = torch.randn(8, 8, device=device)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print("step", step, loss)  # here: sync-in-loop
""",
        """\
for step in range(12):
    x = torch.randn(8, 8, device=device)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    if step % 6 == 0:
        print("step", step, loss)
""",
    ),
    "a hidden state made on the CPU": (
        """\
rnn = nn.GRU(8, 4).to(device)
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
for x, y in loader:
    x = x.to(device, non_blocking=True)
    hidden = torch.zeros(1, 8, 4).to(device)  # here: create-then-move
    rnn(x.unsqueeze(0), hidden)[0].sum().backward()
    optimizer.step()
""",
        """\
rnn = nn.GRU(8, 4).to(device)
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
for x, y in loader:
    x = x.to(device, non_blocking=True)
    hidden = torch.zeros(1, 8, 4, device=device)
    # Filled on the CPU item by item and moved as a whole: that is how a batch is put together.
    lengths = torch.zeros(8, dtype=torch.long)
    for i in range(8):
        lengths[i] = i
    ids = torch.tensor([1, 2, 3]).to(device)
    rnn(x.unsqueeze(0), hidden)[0].sum().mul(lengths.float().to(device).sum() * ids[0]).backward()
    optimizer.step()
""",
    ),
    "positions made on the CPU in forward": (
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 4)

    def forward(self, x):
        positions = torch.arange(x.shape[1]).flip(0)
        return x[..., :4] + self.embedding(positions.to(x.device))  # here: create-then-move


net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    net(torch.randn(2, 8, 8, device=device)).sum().backward()
    optimizer.step()
""",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 4)

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device).flip(0)
        return x[..., :4] + self.embedding(positions)


net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    net(torch.randn(2, 8, 8, device=device)).sum().backward()
    optimizer.step()
""",
    ),
    "large batches out of pageable memory": (
        """\
wide = nn.Linear(16384, 1).to(device)
optimizer = torch.optim.SGD(wide.parameters(), lr=0.1)
images = DataLoader(TensorDataset(torch.randn(32, 16384)), batch_size=8)  # here: pageable-copy
for (x,) in images:
    x = x.to(device)
    wide(x).sum().backward()
    optimizer.step()
""",
        """\
wide = nn.Linear(16384, 1).to(device)
optimizer = torch.optim.SGD(wide.parameters(), lr=0.1)
images = DataLoader(TensorDataset(torch.randn(32, 16384)), batch_size=8, pin_memory=True)
for (x,) in images:
    x = x.to(device, non_blocking=True)
    wide(x).sum().backward()
    optimizer.step()
""",
    ),
    "non_blocking without pinned memory": (
        """\
wide = nn.Linear(1024, 1).to(device)
optimizer = torch.optim.SGD(wide.parameters(), lr=0.1)
images = DataLoader(  # here: unpinned-non-blocking
    TensorDataset(torch.randn(32, 1024)),
    batch_size=8,  # few
)
for (x,) in images:
    x = x.to(device, non_blocking=True)
    wide(x).sum().backward()
    optimizer.step()
""",
        """\
wide = nn.Linear(1024, 1).to(device)
optimizer = torch.optim.SGD(wide.parameters(), lr=0.1)
images = DataLoader(
    TensorDataset(torch.randn(32, 1024)),
    batch_size=8,  # few
    pin_memory=True,
)
for (x,) in images:
    x = x.to(device, non_blocking=True)
    wide(x).sum().backward()
    optimizer.step()
""",
    ),
    "a boolean mask as an index": (
        """\
def masked_loss(output, mask):
    return output[mask].sum()  # here: sync-in-loop


for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    masked_loss(model(x), y > 1).backward()
    optimizer.step()
""",
        """\
def masked_loss(output, mask):
    return torch.where(mask[:, None], output, 0.0).sum()


for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    masked_loss(model(x), y > 1).backward()
    optimizer.step()
state = {name: value.cpu() for name, value in model.state_dict().items()}
print([value.sum().item() for value in state.values()], model[0].weight.sum().item())
""",
    ),
    "accuracy read in every evaluation batch": (
        """\
correct = 0
with torch.no_grad():
    for x, y in loader:
        prediction = model(x.to(device, non_blocking=True)).argmax(-1)
        correct += (prediction == y.to(device, non_blocking=True)).sum().item()  # here: sync-in-loop
""",
        """\
correct = torch.zeros((), device=device)
predictions = []
with torch.no_grad():
    for x, y in loader:
        prediction = model(x.to(device, non_blocking=True)).argmax(-1)
        correct += (prediction == y.to(device, non_blocking=True)).sum()
        predictions.append(prediction)
print(correct.item(), torch.cat(predictions).cpu())
""",
    ),
}
