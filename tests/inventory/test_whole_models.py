"""Audits of models as people have them: spread over GPUs, tied, with a copy, an optimizer and metrics."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import samedevice  # noqa: E402
from samedevice.inventory import StrayTensors, audit  # noqa: E402

pytestmark = pytest.mark.torch


def tiny_gpt2() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"n_layer": 6, "n_embd": 32, "n_head": 2, "vocab_size": 100, "n_positions": 32}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


DEVICE_MAP = """\
model (GPT2LMHeadModel)            77 parameters cuda:0 cuda:1 f32        322 kB
├─ .transformer                    76 parameters cuda:0 cuda:1 f32        322 kB
│  ├─ .wte                           1 parameter cuda:0        f32       12.8 kB
│  │    · tied with model.lm_head.weight
│  ├─ .wpe                           1 parameter cuda:0        f32        4.1 kB
│  ├─ .h                           72 parameters cuda:0 cuda:1 f32        305 kB
│  │  ├─ [0] … [2]                 36 parameters cuda:0        f32        152 kB
│  │  └─ [3] … [5]                 36 parameters cuda:1        f32        152 kB
│  └─ .ln_f                         2 parameters cuda:1        f32         256 B
└─ .lm_head                          1 parameter cuda:0        f32           0 B
     · tied with model.transformer.wte.weight
total: 169 kB on cuda:0, 153 kB on cuda:1"""


def test_a_model_that_a_device_map_spreads_over_two_gpus() -> None:
    accelerate = pytest.importorskip("accelerate")
    with samedevice.virtual_gpus(2):
        places = {f"transformer.h.{i}": int(i >= 3) for i in range(6)}
        places |= {f"transformer.{name}": 0 for name in ("wte", "wpe", "drop")}
        model = accelerate.dispatch_model(
            tiny_gpt2(), device_map=places | {"transformer.ln_f": 1, "lm_head": 0}
        )

        found = audit(model)

        assert str(found) == DEVICE_MAP
        audit(
            model,
            expect={"model": "cuda:0", "model.transformer.h": "cuda", "model.transformer.ln_f": "cuda:1"},
        )


def test_an_average_an_optimizer_and_metrics_left_on_the_cpu() -> None:
    torchmetrics = pytest.importorskip("torchmetrics")
    with samedevice.virtual_gpus(1):
        net = torch.nn.Linear(4, 3).cuda()
        optimizer = torch.optim.AdamW(net.parameters())
        net(torch.zeros(2, 4).cuda()).sum().backward()
        optimizer.step()
        average = torch.optim.swa_utils.AveragedModel(net)
        metrics = torchmetrics.MetricCollection({"acc": torchmetrics.classification.MulticlassAccuracy(3)})

        audit(net, optimizer, average, expect="cuda:0")
        with pytest.raises(StrayTensors) as caught:
            audit(metrics, average.cpu(), expect="cuda:0")

    rules = {stray.entry.path: stray.rule for stray in caught.value.strays}
    assert rules["metrics.acc.tp"] == "metric-state-not-moved"
    assert "copy-left-behind" in rules.values()
