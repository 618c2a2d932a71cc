"""Evaluate a plain loop with torchmetrics: a collection, a tracker, retrieval, a metric over time."""

import torch
from torch import nn
from torchmetrics import MeanMetric, MetricCollection, MetricTracker, SpearmanCorrCoef
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassCalibrationError,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)
from torchmetrics.functional import pairwise_cosine_similarity
from torchmetrics.retrieval import RetrievalMAP
from torchmetrics.wrappers import BootStrapper, ClasswiseWrapper

CLASSES = 4
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

model = nn.Linear(6, CLASSES).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
batches = [(torch.randn(16, 6), torch.randint(0, CLASSES, (16,))) for _ in range(4)]

per_class = ClasswiseWrapper(MulticlassF1Score(CLASSES, average=None))
collection = MetricCollection(
    [
        MulticlassAccuracy(CLASSES),
        MulticlassAUROC(CLASSES),  # keeps lists of scores
        MulticlassCalibrationError(CLASSES),
        MulticlassConfusionMatrix(CLASSES),
    ]
).to(device)
tracker = MetricTracker(MetricCollection([MulticlassAccuracy(CLASSES), per_class])).to(device)
average = MeanMetric().to(device)
spread = BootStrapper(MeanMetric(), num_bootstraps=3).to(device)
order = SpearmanCorrCoef().to(device)

for epoch in range(2):
    tracker.increment()
    for inputs, targets in batches:
        inputs, targets = inputs.to(device), targets.to(device)
        scores = model(inputs)
        loss = nn.functional.cross_entropy(scores, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            probabilities = scores.softmax(-1)
            collection.update(probabilities, targets)
            tracker.update(probabilities, targets)
            average.update(loss, weight=len(inputs))
            spread.update(loss.repeat(4))
            order.update(scores[:, 0], inputs[:, 0])
    print("epoch", epoch, {name: value.tolist() for name, value in collection.compute().items()})
    print("tracked", {name: value.item() for name, value in tracker.compute().items()})
    print("loss", average.compute().item(), {name: value.item() for name, value in spread.compute().items()})
    print("order", order.compute().item())
    collection.reset()
    average.reset()
print("best", tracker.best_metric())

found = RetrievalMAP().to(device)
similar = pairwise_cosine_similarity(model.weight, inputs)
queries = torch.arange(CLASSES, device=device)[:, None].expand_as(similar)
found.update(similar.flatten(), (targets == queries).flatten(), indexes=queries.flatten())
print("retrieval", found.compute().item())

# The state goes home with the metric, and into a file with the model.
found.persistent(True)
collection.update(model(inputs).softmax(-1), targets)
print("at home", {name: value.tolist() for name, value in collection.cpu().compute().items()})
