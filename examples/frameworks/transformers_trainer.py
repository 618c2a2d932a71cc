"""Train a small language model with `Trainer`: evaluate, save a checkpoint, resume from it."""

import tempfile

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

CONFIG = GPT2Config(
    vocab_size=32, n_embd=16, n_layer=2, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
)


class Counting(torch.utils.data.Dataset):
    """Sequences that count upwards from a random start."""

    def __init__(self, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(0, 32, (size, 1), generator=generator)
        self.tokens = (starts + torch.arange(12)) % 32

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def trainer(folder: str, steps: int, **options) -> Trainer:
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        save_steps=2,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        seed=0,
        **options,
    )
    set_seed(0)
    made = Trainer(
        GPT2LMHeadModel(CONFIG), arguments, train_dataset=Counting(32, 0), eval_dataset=Counting(8, 1)
    )
    made.remove_callback(PrinterCallback)
    return made


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = trainer(folder, 2)
        print("trained", first.train().training_loss)
        print("evaluated", first.evaluate()["eval_loss"])

        resumed = trainer(folder, 4, gradient_checkpointing=True)
        print("resumed", resumed.train(resume_from_checkpoint=True).training_loss)
        print("predicted", resumed.predict(Counting(4, 2)).predictions.argmax(-1)[0].tolist())


main()
