"""A library's layer: rotary position embeddings with a cache of sines and cosines."""

import torch
from torch import nn


class Rotary(nn.Module):
    """Turns pairs of features by an angle that grows with the position.

    The tables for the longest sequence so far are kept.
    """

    def __init__(self, width: int, base: float = 10_000.0) -> None:
        super().__init__()
        frequencies = base ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.tables: tuple[torch.Tensor, torch.Tensor] | None = None

    def angles(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.tables is None or len(self.tables[0]) < length:
            positions = torch.arange(length, device=self.frequencies.device)
            angles = positions[:, None] * self.frequencies
            self.tables = angles.cos(), angles.sin()
        cos, sin = self.tables
        return cos[:length], sin[:length]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cos, sin = self.angles(x.shape[-2])
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
