"""The training loop."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from three_mistakes import checkpoints
from three_mistakes.average import Average
from three_mistakes.data import class_weights, make_loaders
from three_mistakes.evaluate import evaluate
from three_mistakes.model import Reader


@dataclass
class Settings:
    """What a run can be told."""

    epochs: int = 2
    words: int = 1024
    batch_size: int = 64
    learning_rate: float = 3e-3
    width: int = 32
    device: str = "cpu"


class Trainer:
    """Model, data, loss and optimizer of one run."""

    def __init__(self, settings: Settings) -> None:
        torch.manual_seed(0)
        self.settings = settings
        self.device = torch.device(settings.device)
        self.train_loader, self.valid_loader = make_loaders(settings.words, settings.batch_size)

        self.model = Reader(settings.width)
        self.average = Average(self.model)
        self.model.to(self.device)

        weights = class_weights(self.train_loader.dataset.labels)
        self.criterion = nn.CrossEntropyLoss(weight=weights)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.learning_rate)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.optimizer, T_max=settings.epochs * len(self.train_loader)
        )
        self.epoch = 0

    def fit(self) -> None:
        while self.epoch < self.settings.epochs:
            self.epoch += 1
            loss = self.train_one_epoch()
            print(f"epoch {self.epoch}: loss {loss:.3f}, accuracy {self.evaluate():.1%}")

    def train_one_epoch(self) -> float:
        total, seen = 0.0, 0
        for batch in self.train_loader:
            batch = batch.to(self.device)
            logits = self.model(batch.words, batch.present)
            loss = self.criterion(logits, batch.labels)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.average.update(self.model)
            total += loss.item() * len(batch)
            seen += len(batch)
        return total / seen

    def evaluate(self) -> float:
        with self.average.applied(self.model):
            return evaluate(self.model, self.valid_loader, self.device).accuracy()

    def save(self, path: Path) -> None:
        checkpoints.save(
            path, model=self.model, average=self.average, optimizer=self.optimizer, epoch=self.epoch
        )

    def load(self, path: Path) -> None:
        state = checkpoints.load(
            path, self.device, model=self.model, average=self.average, optimizer=self.optimizer
        )
        self.epoch = state["epoch"]
