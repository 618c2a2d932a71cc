"""LoRA adapters: added before the move, after it, merged, saved and loaded again."""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, set_seed

device = "cuda" if torch.cuda.is_available() else "cpu"
lora = LoraConfig(r=2, lora_alpha=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
tokens = torch.arange(16).reshape(2, 8).to(device)


def base() -> GPT2LMHeadModel:
    set_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=32,
            n_embd=16,
            n_layer=2,
            n_head=2,
            n_positions=16,
            bos_token_id=0,
            eos_token_id=0,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def train(model) -> None:
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    for _ in range(3):
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item())


before = get_peft_model(base(), lora).to(device)
train(before)
after = get_peft_model(base().to(device), lora)
train(after)

with tempfile.TemporaryDirectory() as folder:
    after.save_pretrained(folder)
    again = PeftModel.from_pretrained(base().to(device), folder)
    print("loaded", again(input_ids=tokens, labels=tokens).loss.item())

after.add_adapter("second", lora)
after.set_adapter("second")
print("second adapter", after(input_ids=tokens, labels=tokens).loss.item())
after.set_adapter("default")
with after.disable_adapter():
    print("without adapters", after(input_ids=tokens, labels=tokens).loss.item())
merged = after.merge_and_unload()
print("merged", merged(input_ids=tokens, labels=tokens).loss.item())
