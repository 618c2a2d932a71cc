"""A small transformer that reads a word and names its language."""

import math

import torch
from torch import nn

from three_mistakes.data import LANGUAGES, VOCABULARY


def sinusoids(length: int, width: int) -> torch.Tensor:
    """The position table of "Attention Is All You Need"."""
    positions = torch.arange(length).unsqueeze(1)
    rates = torch.exp(-math.log(10_000.0) * torch.arange(0, width, 2) / width)
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(positions * rates)
    table[:, 1::2] = torch.cos(positions * rates)
    return table


class Embedding(nn.Module):
    """Letters and their places in the word."""

    def __init__(self, width: int, longest: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.positions = sinusoids(longest, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        letters = self.letters(words)
        return self.norm(letters + self.positions[: words.shape[1]])


class Block(nn.Module):
    """Attention and a feed-forward net, normalised first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        )

    def attend(self, x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        mixed = self.mix(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        mask = present[:, None, None, :]
        seen = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(seen.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.before_attention(x), present)
        return x + self.feed(x)


class Reader(nn.Module):
    """Embedding, blocks, and the mean over a word's letters."""

    def __init__(self, width: int = 32, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.embedding = Embedding(width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, len(LANGUAGES))

    def forward(self, words: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x, present)
        kept = present.unsqueeze(-1).to(x.dtype)
        return self.head((x * kept).sum(1) / kept.sum(1))
