"""`python -m three_mistakes`: train, evaluate, save, resume."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from three_mistakes.train import Settings, Trainer


def main() -> None:
    parser = argparse.ArgumentParser(prog="three_mistakes", description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--words", type=int, default=1024, help="words to train on")
    parser.add_argument("--folder", type=Path, help="where checkpoints go; a temporary folder by default")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    with TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        settings = Settings(epochs=args.epochs, words=args.words, device=args.device)

        trainer = Trainer(settings)
        trainer.fit()
        trainer.save(folder / "last.pt")

        resumed = Trainer(settings)
        resumed.load(folder / "last.pt")
        print(f"resumed after epoch {resumed.epoch}")
        print(f"accuracy after resuming: {resumed.evaluate():.1%}")


if __name__ == "__main__":
    main()
