"""Train and evaluate with pytorch-ignite: engines, metrics, handlers, checkpoints, a moving average."""

import tempfile

import ignite.distributed as idist
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import (
    Checkpoint,
    DiskSaver,
    EarlyStopping,
    EMAHandler,
    TerminateOnNan,
    global_step_from_engine,
)
from ignite.handlers.param_scheduler import LinearCyclicalScheduler
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, Recall, RunningAverage, mIoU
from ignite.utils import manual_seed
from torch import nn
from torch.utils.data import TensorDataset

CLASSES = 3
manual_seed(0)
device = idist.device()

labels = torch.randint(0, CLASSES, (96,))
points = torch.randn(96, 4) + labels[:, None]
training = idist.auto_dataloader(TensorDataset(points[:64], labels[:64]), batch_size=16, shuffle=True)
held_out = idist.auto_dataloader(TensorDataset(points[64:], labels[64:]), batch_size=16)

model = idist.auto_model(
    nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, CLASSES))
)
optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 2.0])).to(device)

trainer = create_supervised_trainer(
    model, optimizer, criterion, device=device, gradient_accumulation_steps=2, deterministic=True
)
RunningAverage(output_transform=lambda loss: loss, device=device).attach(trainer, "average loss")
trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
trainer.add_event_handler(Events.ITERATION_STARTED, LinearCyclicalScheduler(optimizer, "lr", 0.5, 0.05, 16))
average = EMAHandler(model, momentum=0.1)
average.attach(trainer, name="momentum", event=Events.ITERATION_COMPLETED)


def measures() -> dict[str, object]:
    confusion = ConfusionMatrix(CLASSES, device=device)
    precision, recall = Precision(average=False, device=device), Recall(average=False, device=device)
    return {
        "accuracy": Accuracy(device=device),
        "f1": (precision * recall * 2 / (precision + recall)).mean(),
        "loss": Loss(criterion, device=device),
        "mean IoU": mIoU(confusion),
    }


evaluator = create_supervised_evaluator(model, measures(), device=device)
smooth = create_supervised_evaluator(average.ema_model, measures(), device=device)


def show(name: str, values: dict[str, object]) -> None:
    numbers = {
        key: value.item() if isinstance(value, torch.Tensor) else value for key, value in values.items()
    }
    print(name, dict(sorted(numbers.items())))


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate() -> None:
    show(f"epoch {trainer.state.epoch}", {"loss": trainer.state.metrics["average loss"]})
    evaluator.run(held_out)
    smooth.run(held_out)
    show("weights", evaluator.state.metrics)
    show("average", smooth.state.metrics)


def score(engine: object) -> float:
    return engine.state.metrics["accuracy"]


with tempfile.TemporaryDirectory() as folder:
    evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(4, score, trainer))
    parts = {"model": model, "optimizer": optimizer, "trainer": trainer, "average": average.ema_model}
    keeper = Checkpoint(
        parts,
        DiskSaver(folder, create_dir=True),
        n_saved=2,
        score_function=score,
        global_step_transform=global_step_from_engine(trainer),
    )
    evaluator.add_event_handler(Events.COMPLETED, keeper)
    trainer.run(training, max_epochs=3)
    saved = torch.load(keeper.last_checkpoint, map_location=device, weights_only=False)
    Checkpoint.load_objects(parts, saved)
    trainer.run(training, max_epochs=5)
