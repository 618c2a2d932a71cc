"""Generate text greedily, by sampling, by beam search, with the caches that transformers offers."""

import torch
from transformers import BartConfig, BartForConditionalGeneration, LlamaConfig, LlamaForCausalLM

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)

llama = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
).to(device)
prompt = torch.tensor([[1, 5, 7, 9], [0, 0, 1, 4]], device=device)
given = {
    "attention_mask": (prompt != 0).long(),
    "max_new_tokens": 6,
    "pad_token_id": 0,
    "eos_token_id": 31,
}

print("greedy", llama.generate(prompt, **given, do_sample=False).tolist())
print("beams", llama.generate(prompt, **given, num_beams=3, do_sample=False).tolist())
torch.manual_seed(1)
print("sampled", llama.generate(prompt, **given, do_sample=True, top_k=8, temperature=0.9).tolist())
static = llama.generate(prompt, **given, do_sample=False, cache_implementation="static")
print("static cache", static.tolist())
print("no cache", llama.generate(prompt, **given, do_sample=False, use_cache=False).tolist())

scored = llama.generate(prompt, **given, do_sample=False, output_scores=True, return_dict_in_generate=True)
print("scores", [score.max().item() for score in scored.scores])

bart = BartForConditionalGeneration(
    BartConfig(
        vocab_size=32,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=32,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        decoder_start_token_id=1,
        forced_eos_token_id=2,
    )
).to(device)
print("encoder and decoder", bart.generate(prompt + 3, num_beams=2, max_new_tokens=6).tolist())
