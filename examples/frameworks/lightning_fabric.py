"""A training loop of one's own with Lightning Fabric: setup, backward, clipping, saving and loading."""

import tempfile
from pathlib import Path

import torch
from lightning.fabric import Fabric, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

seed_everything(0, verbose=False)
fabric = Fabric(accelerator="auto", devices=1)
fabric.launch()


class Memory(nn.Module):
    """A recurrent model that makes its first state where its input is."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        state = steps.new_zeros(len(steps), 8)
        for step in steps.unbind(1):
            state = self.cell(step, state)
        return self.head(state).squeeze(-1)


with fabric.init_module():
    model = Memory()
    shift = torch.full((1,), 0.5)  # made on the device of Fabric
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
model, optimizer = fabric.setup(model, optimizer)

sequences = torch.randn(40, 6, 3)
data = TensorDataset(sequences, sequences.sum((1, 2)))
loader = fabric.setup_dataloaders(DataLoader(data, batch_size=8, shuffle=True))


def epoch() -> float:
    losses = []
    for sequences, sums in loader:
        optimizer.zero_grad()
        with fabric.autocast():
            loss = nn.functional.mse_loss(model(sequences) + shift, sums)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        losses.append(loss.detach())
    return fabric.all_gather(torch.stack(losses)).mean().item()


print("losses", epoch(), epoch())
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "state.ckpt")
    fabric.save(file, {"model": model, "optimizer": optimizer, "shift": shift, "epochs": 2})
    print("longer", epoch())
    state = {"model": model, "optimizer": optimizer}
    rest = fabric.load(file, state)
    print("back at", rest["epochs"], rest["shift"].item(), "and on", epoch())

outliers = fabric.to_device(torch.tensor([[[9.0, 0.0, -9.0]] * 6]))
with torch.no_grad():
    print("outlier", model(outliers).tolist())
