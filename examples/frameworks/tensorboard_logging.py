"""Log scalars, histograms, images, embeddings and the graph of a model on a GPU to tensorboard."""

import tempfile

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm, trange

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 3)).to(
    device
)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
batches = [(torch.rand(6, 1, 8, 8), torch.randint(0, 3, (6,))) for _ in range(3)]

with tempfile.TemporaryDirectory() as folder:
    with SummaryWriter(folder) as writer:
        writer.add_graph(model, batches[0][0].to(device))
        for epoch in trange(2, disable=None):
            for step, (images, labels) in enumerate(bar := tqdm(batches, leave=False, disable=None)):
                images, labels = images.to(device), labels.to(device)
                scores = model(images)
                loss = nn.functional.cross_entropy(scores, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                bar.set_postfix(loss=loss.item())
                writer.add_scalar("loss", loss, epoch * len(batches) + step)
            for name, weight in model.named_parameters():
                writer.add_histogram(name, weight, epoch)
                writer.add_histogram(f"{name}.grad", weight.grad, epoch)
            writer.add_scalars("scores", dict(zip("abc", scores.mean(0))), epoch)
            writer.add_images("images", images, epoch)
            writer.add_pr_curve("first", labels == 0, scores.softmax(-1)[:, 0], epoch)
            writer.add_tensor("scores", scores.detach(), epoch)
        writer.add_embedding(scores, metadata=labels.tolist(), label_img=images)
        writer.add_hparams({"rate": 1e-3}, {"final": loss})
    events = EventAccumulator(folder).Reload()
    print("loss", [event.value for event in events.Scalars("loss")])
    print("weights", [event.histogram_value.sum for event in events.Histograms("0.weight")])
    print("logged", sorted(events.Tags()["images"]), sorted(events.Tags()["histograms"]))
