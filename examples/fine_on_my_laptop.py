"""A script that runs flawlessly on a laptop and would fail on the first rented GPU.

A small recurrent network learns to spell. `device` is chosen as every tutorial shows, so without a
GPU nothing can go wrong; `samedevice check` shows before the money is spent what a GPU would say.
"""

import torch
from torch import nn

TEXT = (
    "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. "
    "how vexingly quick daft zebras jump. sphinx of black quartz, judge my vow. "
) * 8
LETTERS = sorted(set(TEXT))
INDEX = {letter: number for number, letter in enumerate(LETTERS)}


class Speller(nn.Module):
    def __init__(self, letters: int, width: int = 64) -> None:
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(letters, width)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, letters)

    def start(self, batch: int) -> torch.Tensor:
        """The hidden state before the first letter."""
        return torch.zeros(1, batch, self.width)

    def forward(self, letters: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, hidden = self.cell(self.embed(letters), hidden)
        return self.head(out), hidden


def train(model: Speller, data: torch.Tensor, steps: int, device: torch.device) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        starts = torch.randint(len(data) - 33, (16,))
        batch = torch.stack([data[s : s + 33] for s in starts]).to(device)
        logits, _ = model(batch[:, :-1], model.start(len(batch)))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def write(model: Speller, first: str, length: int, device: torch.device) -> str:
    letter = torch.tensor([[INDEX[first]]], device=device)
    hidden, text = model.start(1), first
    for _ in range(length):
        logits, hidden = model(letter, hidden)
        letter = logits[:, -1:].argmax(-1)
        text += LETTERS[letter.item()]
    return text


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = torch.tensor([INDEX[letter] for letter in TEXT])
    model = Speller(len(LETTERS)).to(device)
    print(f"loss after 40 steps: {train(model, data, 40, device):.3f}")
    print(write(model, "t", 40, device))


if __name__ == "__main__":
    main()
