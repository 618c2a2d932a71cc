"""A metric's hash is computed from its state: virtual GPUs must not ask for it too early."""

import pytest

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

import samedevice  # noqa: E402

pytestmark = pytest.mark.torch


def test_metrics_are_made_and_audited_on_virtual_gpus() -> None:
    with samedevice.virtual_gpus(1):
        metric = torchmetrics.classification.MulticlassAccuracy(3)

        assert {entry.device for entry in samedevice.audit(metric).entries()} == {"cpu"}
        assert {entry.device for entry in samedevice.audit(metric.cuda()).entries()} == {"cuda:0"}
