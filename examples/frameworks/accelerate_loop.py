"""A training loop with `Accelerator`: accumulation, clipping, gathering, saving and loading of the state."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = TensorDataset(torch.randn(24, 6), torch.randint(0, 3, (24,)))
loader = DataLoader(data, batch_size=4, shuffle=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)


def epoch() -> None:
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    print("loss", accelerator.gather(loss.detach().reshape(1)).mean().item())


def accuracy() -> float:
    correct = []
    with torch.no_grad():
        for inputs, targets in loader:
            guesses, targets = accelerator.gather_for_metrics((model(inputs).argmax(-1), targets))
            correct.append((guesses == targets).float())
    return torch.cat(correct).mean().item()


epoch()
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    epoch()
    print("accuracy", accuracy())
    accelerator.load_state(folder)
    epoch()
print("accuracy", accuracy())
weights = accelerator.get_state_dict(accelerator.unwrap_model(model))
print("weights", {name: weight.sum().item() for name, weight in weights.items()})
