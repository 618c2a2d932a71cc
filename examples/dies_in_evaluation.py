"""A training run that dies in its evaluation, after two good epochs.

Which of four shapes does a noisy curve follow? On the CPU the script runs to its end; on a GPU it
trains for two epochs, then the first evaluation ends it.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SHAPES = ("sine", "square", "sawtooth", "flat")
SHARES = torch.tensor([0.4, 0.3, 0.2, 0.1])


def curves(count: int, length: int, generator: torch.Generator) -> TensorDataset:
    """Noisy curves with the number of their shape."""
    labels = torch.multinomial(SHARES, count, replacement=True, generator=generator)
    phase = torch.rand(count, 1, generator=generator)
    time = torch.linspace(0, 2, length) + phase
    wave = torch.stack(
        [
            torch.sin(2 * torch.pi * time),
            torch.sin(2 * torch.pi * time).sign(),
            2 * (time % 1) - 1,
            torch.zeros_like(time),
        ]
    )
    clean = wave[labels, torch.arange(count)]
    return TensorDataset(clean + 0.3 * torch.randn(count, length, generator=generator), labels)


class Classifier(nn.Module):
    """Trained on unbalanced shapes, it is asked about balanced ones: evaluation takes the prior out."""

    def __init__(self, prior: torch.Tensor, channels: int = 16) -> None:
        super().__init__()
        self.log_prior = prior.log()
        self.features = nn.Sequential(
            nn.Conv1d(1, channels, 7, padding=3),
            nn.BatchNorm1d(channels),
            nn.ReLU(),
            nn.MaxPool1d(4),
            nn.Conv1d(channels, channels, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(4),
        )
        self.head = nn.Linear(4 * channels, len(SHAPES))

    def forward(self, curve: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.features(curve.unsqueeze(1)).flatten(1))
        return logits if self.training else logits - self.log_prior


class ConfusionMatrix:
    """Counts how often shape `i` was taken for shape `j`."""

    def __init__(self, classes: int, device: torch.device) -> None:
        self.counts = torch.zeros(classes, classes, device=device)

    def update(self, predicted: torch.Tensor, labels: torch.Tensor) -> None:
        classes = len(self.counts)
        pairs = torch.bincount(labels * classes + predicted, minlength=classes**2)
        self.counts += pairs.reshape(classes, classes)

    def accuracy(self) -> float:
        return (self.counts.diagonal().sum() / self.counts.sum()).item()


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    model.eval()
    matrix = ConfusionMatrix(len(SHAPES), device)
    for curve, labels in loader:
        curve, labels = curve.to(device), labels.to(device)
        matrix.update(model(curve).argmax(1), labels)
    return matrix.accuracy()


def train_one_epoch(
    model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer, device: torch.device
) -> float:
    model.train()
    total = 0.0
    for curve, labels in loader:
        curve, labels = curve.to(device), labels.to(device)
        loss = nn.functional.cross_entropy(model(curve), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--evaluate-every", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(0)
    train = DataLoader(curves(512, 64, generator), batch_size=32, shuffle=True)
    valid = DataLoader(curves(256, 64, generator), batch_size=32)

    model = Classifier(SHARES).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    for epoch in range(1, args.epochs + 1):
        print(f"epoch {epoch}: loss {train_one_epoch(model, train, optimizer, device):.3f}")
        if epoch % args.evaluate_every == 0:
            print(f"epoch {epoch}: accuracy {evaluate(model, valid, device):.1%}")


if __name__ == "__main__":
    main()
