"""Train on two GPUs with Lightning's own launcher: DDP, synchronised logging, a metric over both processes."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.accuracy = MulticlassAccuracy(3)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        points, labels = batch
        loss = nn.functional.cross_entropy(self.layers(points), labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        points, labels = batch
        self.accuracy(self.layers(points), labels)
        self.log("accuracy", self.accuracy)

    def on_validation_epoch_end(self) -> None:
        everywhere = self.all_gather(self.layers[0].weight.detach().sum())
        assert everywhere.unique().numel() == 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.05)


def main() -> None:
    lightning.seed_everything(0, verbose=False)
    points = torch.randn(32, 4)
    loader = DataLoader(TensorDataset(points, points[:, :3].argmax(1)), batch_size=4, shuffle=True)
    model = Classifier()
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader, DataLoader(loader.dataset, batch_size=4))
    if trainer.is_global_zero:
        measured = {name: value.item() for name, value in sorted(trainer.callback_metrics.items())}
        print(f"{trainer.world_size} processes", measured, model.layers[0].weight.sum().item())


if __name__ == "__main__":
    main()
