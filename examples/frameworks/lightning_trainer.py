"""Train, validate, stop early, resume, test and predict with Lightning's `Trainer`."""

import tempfile
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

warnings.filterwarnings("ignore", ".*does not have many workers.*")
CLASSES = 3


class Points(lightning.LightningDataModule):
    """Three clouds of points."""

    def __init__(self) -> None:
        super().__init__()
        numbers = torch.Generator().manual_seed(1)
        labels = torch.randint(0, CLASSES, (96,), generator=numbers)
        points = torch.randn(96, 4, generator=numbers) + labels[:, None]
        self.whole = TensorDataset(points, labels)

    def setup(self, stage: str) -> None:
        parts = torch.utils.data.random_split(self.whole, [64, 32], torch.Generator().manual_seed(2))
        self.training, self.held_out = parts

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.training, batch_size=16, shuffle=True, pin_memory=torch.cuda.is_available())

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.held_out, batch_size=16)

    test_dataloader = predict_dataloader = val_dataloader


class Classifier(lightning.LightningModule):
    """Two layers, normalised inputs, metrics as submodules: all of it moves with the module."""

    def __init__(self, width: int = 16, rate: float = 0.02) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(
            nn.BatchNorm1d(4), nn.Linear(4, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, CLASSES)
        )
        self.loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0]))
        self.metrics = MetricCollection({"accuracy": MulticlassAccuracy(CLASSES)}, prefix="val_")
        self.confusion = MulticlassConfusionMatrix(CLASSES)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.layers(points)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        points, labels = batch
        loss = self.loss(self(points + 0.01 * torch.randn_like(points)), labels)
        self.log("loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        # what is logged may be anywhere: Lightning takes it to the module's device
        self.log("batch", torch.tensor(float(len(labels))), reduce_fx="sum", on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        points, labels = batch
        scores = self(points)
        self.log("val_loss", self.loss(scores, labels))
        self.log_dict(self.metrics(scores, labels))

    def test_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        points, labels = batch
        self.confusion.update(self(points), labels)

    def on_test_epoch_end(self) -> None:
        table = self.confusion.compute()
        self.log("test_accuracy", table.diag().sum() / table.sum())

    def predict_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        return self(batch[0]).argmax(-1)

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams["rate"])
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)}


def trainer(folder: str, epochs: int) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=epochs,
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
        callbacks=[
            ModelCheckpoint(folder, monitor="val_loss", save_last=True),
            EarlyStopping("val_loss", patience=2),
            LearningRateMonitor("epoch"),
        ],
        logger=CSVLogger(folder),
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def main() -> None:
    lightning.seed_everything(0, verbose=False)
    data = Points()
    with tempfile.TemporaryDirectory() as folder:
        first = trainer(folder, 3)
        first.fit(Classifier(), data)
        print("trained", {name: value.item() for name, value in sorted(first.logged_metrics.items())})

        second = trainer(folder, 5)
        model = Classifier()
        second.fit(model, data, ckpt_path=f"{folder}/last.ckpt")
        print("resumed at", second.current_epoch, second.callback_metrics["val_loss"].item())
        print("tested", second.test(model, data, verbose=False, weights_only=False))
        print("predicted", torch.cat(second.predict(model, data)).tolist())

        best = Classifier.load_from_checkpoint(second.checkpoint_callback.best_model_path, weights_only=False)
        print("best", best.layers[1].weight.sum().item())


if __name__ == "__main__":
    main()
