"""How good a model is, language by language."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from three_mistakes.data import LANGUAGES


class Score:
    """Right answers and all answers of each language."""

    def __init__(self, device: torch.device) -> None:
        self.right = torch.zeros(len(LANGUAGES), device=device)
        self.all = torch.zeros(len(LANGUAGES), device=device)

    def update(self, logits: torch.Tensor, labels: torch.Tensor) -> None:
        hit = (logits.argmax(1) == labels).to(self.right.dtype)
        self.right.index_add_(0, labels, hit)
        self.all.index_add_(0, labels, torch.ones_like(hit))

    def accuracy(self) -> float:
        return (self.right.sum() / self.all.sum()).item()

    def by_language(self) -> dict[str, float]:
        shares = (self.right / self.all.clamp(min=1)).tolist()
        return dict(zip(LANGUAGES, shares))


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> Score:
    model.eval()
    score = Score(device)
    for batch in loader:
        batch = batch.to(device)
        score.update(model(batch.words, batch.present), batch.labels)
    model.train()
    return score
