"""peft's adapters on virtual GPUs."""

from pathlib import Path

import pytest

pytest.importorskip("peft")

import peft
import torch
import transformers

from samedevice import virtual_gpus
from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of, run

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
        peft.PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
        peft.PromptEncoderConfig(num_virtual_tokens=3, encoder_hidden_size=8, task_type="CAUSAL_LM"),
        peft.LoraConfig(r=2, modules_to_save=["lm_head"], **TARGETS),
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


HEAD = """
import tempfile

import torch
import transformers
from peft import AdaLoraConfig, LoraConfig, PeftModel, get_peft_model
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
targets = {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


def base():
    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    return transformers.LlamaForCausalLM(config).to(device)


tokens = torch.tensor([[1, 5, 7, 9]], device=device)


def train(model, after=lambda step: None):
    # AdaLoRA's `ranknum` takes part in training on a GPU alone: a move makes a parameter of it.
    weights = [p for n, p in model.named_parameters() if p.requires_grad and "ranknum" not in n]
    optimizer = torch.optim.AdamW(weights, lr=1e-2)
    for step in range(4):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        after(step)
        optimizer.zero_grad()
        print(loss.item())
"""

LIVES = (
    HEAD
    + """
model = get_peft_model(base(), LoraConfig(r=2, init_lora_weights=False, **targets))
train(model)
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    model = PeftModel.from_pretrained(base(), folder, low_cpu_mem_usage=True, is_trainable=True)
    model.load_adapter(folder, adapter_name="second", low_cpu_mem_usage=True, is_trainable=True)
model.set_adapter("second")
train(model)
model.add_weighted_adapter(["default", "second"], [0.5, 0.5], "both", combination_type="svd")
model.set_adapter("both")
with model.disable_adapter():
    print(model(input_ids=tokens).logits.sum().item())
print(model.merge_and_unload()(input_ids=tokens).logits.sum().item())
adaptive = AdaLoraConfig(r=2, init_r=4, target_r=2, tinit=0, tfinal=1, deltaT=1, total_step=6, **targets)
model = get_peft_model(base(), adaptive)
train(model, model.base_model.update_and_allocate)
"""
)


def test_adapters_are_loaded_through_meta_mixed_and_merged_as_on_the_cpu(tmp_path: Path) -> None:
    script = tmp_path / "lives.py"
    script.write_text(LIVES)
    on_cpu, on_gpu = run(script), run(script, 1)

    assert on_gpu.printed == on_cpu.printed
    assert on_gpu.diagnostics == []


MISTAKES = {
    "an adapter made on meta is never filled": (
        "meta-left",
        """
model = get_peft_model(base(), LoraConfig(r=2, **targets))
model.add_adapter("second", LoraConfig(r=2, **targets), low_cpu_mem_usage=True)  # mistake
model.set_adapter("second")
train(model)
""",
    ),
    "a state of the host takes the adapters' place": (
        "moved-behind-your-back",
        """
model = get_peft_model(base(), LoraConfig(r=2, **targets))
state = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
model.load_state_dict(state, assign=True)  # mistake
train(model)
""",
    ),
    "a change of weights is added on the host": (
        "hardcoded-device",
        """
model = get_peft_model(base(), LoraConfig(r=2, init_lora_weights=False, **targets))
layer = model.base_model.model.model.layers[0].self_attn.q_proj
change = layer.get_delta_weight("default").cpu()  # mistake
with torch.no_grad():
    layer.base_layer.weight += change
""",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_line_of_a_mistake_with_adapters_is_found(mistake: str, tmp_path: Path) -> None:
    rule, program = MISTAKES[mistake]

    diagnostics = found(HEAD + program, tmp_path)

    assert [(d.rule, d.location.line) for d in diagnostics] == [(rule, line_of(HEAD + program))]


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
