"""Words of four made-up languages, each a chain of letters with its own habits."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAD = 0
VOCABULARY = len(LETTERS) + 1
LANGUAGES = ("arvik", "belon", "cirsa", "dunto")

#: how common words of each language are: real data are never balanced
SHARES = torch.tensor([0.55, 0.25, 0.15, 0.05])


@dataclass
class Batch:
    """Padded words, where they have letters, and the numbers of their languages."""

    words: torch.Tensor
    present: torch.Tensor
    labels: torch.Tensor

    def to(self, device: torch.device) -> "Batch":
        return Batch(self.words.to(device), self.present.to(device), self.labels.to(device))

    def __len__(self) -> int:
        return len(self.words)


def make_chain(generator: torch.Generator) -> torch.Tensor:
    """Probabilities of the next letter after each letter, peaked so that a language has a sound."""
    scores = torch.randn(len(LETTERS), len(LETTERS), generator=generator)
    return torch.softmax(2.5 * scores, dim=1)


class Words(Dataset):
    """Words drawn from the chains of the languages."""

    def __init__(self, count: int, seed: int, longest: int = 12) -> None:
        habits = torch.Generator().manual_seed(1234)
        chains = [make_chain(habits) for _ in LANGUAGES]
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.multinomial(SHARES, count, replacement=True, generator=generator)
        self.words = [
            self.draw(chains[label], int(torch.randint(4, longest + 1, (), generator=generator)), generator)
            for label in self.labels.tolist()
        ]

    @staticmethod
    def draw(chain: torch.Tensor, length: int, generator: torch.Generator) -> torch.Tensor:
        letter = int(torch.randint(len(LETTERS), (), generator=generator))
        letters = [letter]
        for _ in range(length - 1):
            letter = int(torch.multinomial(chain[letter], 1, generator=generator))
            letters.append(letter)
        return torch.tensor(letters) + 1

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.words[index], self.labels[index]


def collate(items: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Batch:
    words = pad_sequence([word for word, _ in items], batch_first=True, padding_value=PAD)
    return Batch(words, words != PAD, torch.stack([label for _, label in items]))


def make_loaders(count: int, batch_size: int) -> tuple[DataLoader, DataLoader]:
    """Loaders for training and for evaluation."""
    train = Words(count, seed=1)
    valid = Words(count // 4, seed=2)
    return (
        DataLoader(train, batch_size=batch_size, shuffle=True, collate_fn=collate),
        DataLoader(valid, batch_size=batch_size, collate_fn=collate),
    )


def class_weights(labels: torch.Tensor) -> torch.Tensor:
    """Weights that make rare languages count as much as common ones."""
    counts = torch.bincount(labels, minlength=len(LANGUAGES)).clamp(min=1)
    return counts.sum() / (len(LANGUAGES) * counts)
