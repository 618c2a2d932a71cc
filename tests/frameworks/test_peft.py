"""peft's adapters on virtual GPUs."""

from pathlib import Path

import pytest

pytest.importorskip("peft")

import peft
import torch
import transformers

from samedevice import virtual_gpus
from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of

pytestmark = pytest.mark.torch


def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found() -> None:
    assert_runs_as_on_the_cpu("peft_lora")


LLAMA = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
TARGETS = {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


@pytest.mark.parametrize(
    "adapter",
    [
        peft.LoraConfig(r=2, use_dora=True, **TARGETS),
        peft.LoraConfig(r=2, init_lora_weights="pissa", **TARGETS),
        peft.IA3Config(
            target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], task_type="CAUSAL_LM"
        ),
        peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
        peft.VeraConfig(r=2, **TARGETS),
        peft.OFTConfig(oft_block_size=4, **TARGETS),
    ],
    ids=lambda config: f"{type(config).__name__}",
)
def test_adapters_of_many_kinds_train_as_on_the_cpu(adapter: "peft.PeftConfig") -> None:
    tokens = torch.tensor([[1, 5, 7, 9]])

    def losses(device: str) -> list[float]:
        transformers.set_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)).to(device)
        model = peft.get_peft_model(model, adapter)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
        found = []
        for _ in range(2):
            loss = model(input_ids=tokens.to(device), labels=tokens.to(device)).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    on_cpu = losses("cpu")
    with virtual_gpus(1):
        assert losses("cuda") == on_cpu


def test_adapters_follow_the_layers_of_a_model_spread_over_gpus(tmp_path: Path) -> None:
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)).save_pretrained(tmp_path)
    with virtual_gpus(2):
        base = transformers.LlamaForCausalLM.from_pretrained(
            tmp_path,
            device_map={
                "model.embed_tokens": 0,
                "model.layers.0": 0,
                "model.layers.1": 1,
                "model.norm": 1,
                "model.rotary_emb": 0,
                "lm_head": 1,
            },
        )
        model = peft.get_peft_model(base, peft.LoraConfig(r=2, **TARGETS))
        tokens = torch.tensor([[1, 5, 7]], device="cuda:0")
        model(input_ids=tokens, labels=tokens).loss.backward()
        devices = {
            name.partition("layers.")[2][0]: weight.grad.device.index
            for name, weight in model.named_parameters()
            if weight.requires_grad
        }

    assert devices == {"0": 0, "1": 1}


PROGRAM = """
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(
    GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0)
).to("cuda")
model = get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
attention = model.base_model.model.transformer.h[0].attn
attention.c_attn.lora_B["default"] = nn.Linear(2, 48, bias=False)  # mistake
tokens = torch.arange(8, device="cuda")[None]
print(model(input_ids=tokens, labels=tokens).loss.item())
"""


def test_an_adapter_replaced_after_the_move_is_where_the_mistake_is(tmp_path: Path) -> None:
    (diagnostic,) = found(PROGRAM, tmp_path)

    assert diagnostic.rule == "module-added-after-move"
    assert diagnostic.location.line == line_of(PROGRAM)
    assert "lora_B.default" in diagnostic.message
