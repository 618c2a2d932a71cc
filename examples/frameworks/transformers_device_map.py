"""Load one model over all GPUs with `device_map="auto"`, then with a map of one's own."""

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM

gpus = torch.cuda.device_count()
first, last = ("cuda:0", f"cuda:{gpus - 1}") if gpus else ("cpu", "cpu")
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=8,
    num_attention_heads=2,
    max_position_embeddings=32,
)
prompt = torch.tensor([[1, 5, 7, 9]])
given = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}

with tempfile.TemporaryDirectory() as folder:
    LlamaForCausalLM(config).save_pretrained(folder)

    memory = dict.fromkeys(range(gpus), f"{132 // max(gpus, 1)}KB") | {"cpu": "10MB"}
    model = LlamaForCausalLM.from_pretrained(folder, device_map="auto", max_memory=memory)
    automatic = getattr(model, "hf_device_map", {})
    logits = model(prompt.to(model.device)).logits
    print("auto", logits.float().sum().item())
    print("generated", model.generate(prompt.to(model.device), **given)[0].tolist())

    by_hand = {f"model.layers.{i}": first if i < 4 else last for i in range(8)}
    by_hand |= {"model.embed_tokens": first, "model.rotary_emb": first}
    by_hand |= {"model.norm": last, "lm_head": last}
    model = LlamaForCausalLM.from_pretrained(folder, device_map=by_hand, dtype=torch.float32)
    loss = model(prompt.to(first), labels=prompt.to(last)).loss
    loss.backward()
    print("by hand", loss.item(), model.model.embed_tokens.weight.grad.norm().item())

    model = LlamaForCausalLM.from_pretrained(folder, device_map=first, dtype=torch.bfloat16)
    print(
        "bfloat16",
        model(prompt.to(first)).logits.dtype,
        model.generate(prompt.to(first), **given)[0].tolist(),
    )
