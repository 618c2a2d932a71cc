"""transformers on virtual GPUs: training, generation, pipelines, models over several GPUs."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch
import transformers

from samedevice import virtual_gpus
from tests.frameworks.running import EXAMPLES, assert_runs_as_on_the_cpu, found, line_of, run

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _no_chatter() -> Iterator[None]:
    before = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    yield
    transformers.utils.logging.set_verbosity(before)


@pytest.mark.parametrize("example", ["trainer", "generate", "pipeline"])
def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found(example: str) -> None:
    assert_runs_as_on_the_cpu(f"transformers_{example}")


def test_a_model_spread_over_gpus_computes_what_it_computes_on_the_cpu() -> None:
    script = EXAMPLES / "transformers_device_map.py"
    on_cpu = run(script)
    for gpus in (1, 2, 4):
        on_gpus = run(script, gpus)

        assert on_gpus.printed == on_cpu.printed
        assert on_gpus.diagnostics == []
        if gpus > 1:
            assert set(on_gpus.variables["automatic"].values()) == set(range(gpus))


def test_the_trainer_uses_all_gpus_that_there_are() -> None:
    outcome = run(EXAMPLES / "transformers_trainer.py", 2)

    assert outcome.diagnostics == []
    assert outcome.variables["main"].__name__ == "main"
    assert outcome.printed.startswith("trained ")


CONFIG = {"vocab_size": 32, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}


@pytest.mark.parametrize("flags", [{"bf16": True}, {"fp16": True}, {"bf16_full_eval": True}])
def test_mixed_precision_trains_and_evaluates(flags: dict[str, bool], tmp_path: Path) -> None:
    data = [{"input_ids": torch.arange(8) + i, "labels": torch.arange(8) + i} for i in range(8)]
    with virtual_gpus(1):
        arguments = transformers.TrainingArguments(
            str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=4,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            **flags,
        )
        trainer = transformers.Trainer(
            transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG)),
            arguments,
            train_dataset=data,
            eval_dataset=data,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        losses = [trainer.train().training_loss, trainer.evaluate()["eval_loss"]]

    assert all(abs(loss - math.log(32)) < 0.5 for loss in losses)


@pytest.mark.parametrize("kind", ["static", "offloaded", "offloaded_static"])
def test_every_kind_of_cache_generates_the_same_tokens(kind: str) -> None:
    config = transformers.LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    prompt = torch.tensor([[1, 5, 7]])
    given = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(prompt, **given).tolist()
    with virtual_gpus(1):
        got = model.to("cuda").generate(prompt.to("cuda"), **given, cache_implementation=kind)

        assert got.is_cuda
    assert got.tolist() == expected


def test_experts_are_counted_with_integers_as_on_a_gpu() -> None:
    config = transformers.MixtralConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=3,
    )
    torch.manual_seed(0)
    model = transformers.MixtralForCausalLM(config)
    tokens = torch.tensor([[1, 5, 7]])
    expected = model(tokens, labels=tokens).loss.item()
    with virtual_gpus(1):
        assert model.to("cuda")(tokens.to("cuda"), labels=tokens.to("cuda")).loss.item() == expected


WEIGHTED = """
import tempfile
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.3, 0.7]))  # mistake
        loss = criterion(outputs.logits, labels)
        return (loss, outputs) if return_outputs else loss


config = BertConfig(
    vocab_size=16, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
)
data = [{"input_ids": torch.arange(4) + i, "labels": i % 2} for i in range(8)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=2, per_device_train_batch_size=4, report_to=[], disable_tqdm=True, save_strategy="no"
    )
    trainer = Weighted(BertForSequenceClassification(config), arguments, train_dataset=data)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
"""


def test_class_weights_made_in_compute_loss_are_where_the_mistake_is(tmp_path: Path) -> None:
    (diagnostic,) = found(WEIGHTED, tmp_path)

    assert diagnostic.rule == "loss-weight-not-moved"
    assert diagnostic.location.line == line_of(WEIGHTED)
    assert diagnostic.count == 2


PROCESSOR = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessor


class Ban(LogitsProcessor):
    def __init__(self, size, words):
        self.penalty = torch.zeros(size)  # mistake
        self.penalty[words] = -1e9

    def __call__(self, input_ids, scores):
        return scores + self.penalty


config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
)
model = LlamaForCausalLM(config).to("cuda")
prompt = torch.tensor([[1, 5, 7]], device="cuda")
model.generate(prompt, max_new_tokens=3, do_sample=False, pad_token_id=0, logits_processor=[Ban(32, [3])])
"""


def test_the_table_of_a_logits_processor_is_where_the_mistake_is(tmp_path: Path) -> None:
    (diagnostic,) = found(PROCESSOR, tmp_path)

    assert diagnostic.rule == "factory-without-device"
    assert diagnostic.location.line == line_of(PROCESSOR)
    assert diagnostic.count == 3
