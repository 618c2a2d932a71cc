"""Train an image model with timm: mixup, a loss, an optimizer by name, a scaler, moving averages, checkpoints."""

import tempfile

import timm
import torch
from timm.data import Mixup
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import (
    AverageMeter,
    CheckpointSaver,
    ModelEmaV2,
    ModelEmaV3,
    NativeScaler,
    accuracy,
    dispatch_clip_grad,
    random_seed,
)

CLASSES = 5
random_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images = torch.rand(16, 3, 32, 32)
labels = torch.randint(0, CLASSES, (16,))
batches = list(zip(images.split(8), labels.split(8)))

SMALL = {
    "resnet10t": {"stem_width": 8, "channels": (8, 8, 16, 16)},
    "vit_tiny_patch16_224": {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2},
    "convnext_atto": {"depths": (1, 1, 1, 1), "dims": (8, 16, 16, 24)},
}


def train(name: str, optimizer_name: str) -> None:
    model = timm.create_model(name, num_classes=CLASSES, drop_path_rate=0.1, **SMALL[name]).to(device)
    average, warmed = ModelEmaV2(model, decay=0.9), ModelEmaV3(model, decay=0.9, use_warmup=True)
    optimizer = create_optimizer_v2(model, opt=optimizer_name, lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=3, warmup_t=1, warmup_lr_init=1e-5)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=CLASSES)
    losses = AverageMeter()
    scaler = NativeScaler(device=device.type)
    with tempfile.TemporaryDirectory() as folder:
        saver = CheckpointSaver(
            model, optimizer, model_ema=warmed, checkpoint_dir=folder, recovery_dir=folder
        )
        for epoch in range(2):
            model.train()
            for step, (pictures, targets) in enumerate(batches):
                # a copy on any device: mixup works in place
                pictures, targets = pictures.to(device, copy=True), targets.to(device)
                pictures, soft = mixup(pictures, targets)
                loss = SoftTargetCrossEntropy()(model(pictures), soft)
                optimizer.zero_grad()
                if epoch == 0:
                    loss.backward()
                    dispatch_clip_grad(model.parameters(), 1.0, mode="norm")
                    optimizer.step()
                else:
                    scaler(loss, optimizer, clip_grad=0.02, clip_mode="agc", parameters=model.parameters())
                average.update(model)
                warmed.update(model, step=epoch * len(batches) + step)
                losses.update(loss.item(), len(pictures))
            schedule.step(epoch + 1)
            best, _ = saver.save_checkpoint(epoch, metric=losses.avg)
        timm.models.load_checkpoint(model, f"{folder}/last.pth.tar", use_ema=True, weights_only=False)
    model.eval()
    with torch.no_grad():
        scores = model(images.to(device))
        steady = average.module(images.to(device))
        top = accuracy(scores, labels.to(device), topk=(1, 3))
        smooth = LabelSmoothingCrossEntropy()(steady, labels.to(device))
    print(name, losses.avg, best, [share.item() for share in top], smooth.item(), scores.sum().item())


train("resnet10t", "sgd")
train("vit_tiny_patch16_224", "adamw")
train("convnext_atto", "lamb")
