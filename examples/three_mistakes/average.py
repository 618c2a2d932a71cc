"""A moving average of the weights, which evaluates better than the weights themselves."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


class Average:
    """Keeps a slowly following copy of a model's parameters."""

    def __init__(self, model: nn.Module, decay: float = 0.95) -> None:
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(parameter, alpha=1 - self.decay)

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Within the block the model has the averaged weights."""
        kept = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.copy(self.shadow, model)
        try:
            yield
        finally:
            self.copy(kept, model)

    @staticmethod
    @torch.no_grad()
    def copy(weights: dict[str, torch.Tensor], model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])

    def state_dict(self) -> dict[str, torch.Tensor]:
        return dict(self.shadow)

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        for name, value in state.items():
            self.shadow[name].copy_(value)
