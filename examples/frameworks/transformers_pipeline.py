"""Pipelines for classification and generation, with a tokenizer that is made in memory."""

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    pipeline,
)

device = 0 if torch.cuda.is_available() else -1
torch.manual_seed(0)

words = "[PAD] [UNK] [EOS] the a film was good bad long I liked it not".split()
model = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
model.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]"
)

sizes = {"vocab_size": 16, "max_position_embeddings": 32}
bert = BertForSequenceClassification(
    BertConfig(
        **sizes,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_labels=2,
    )
)
classify = pipeline("text-classification", model=bert, tokenizer=tokenizer, device=device)
for answer in classify(["the film was good", "it was not a good film", "bad"], batch_size=2):
    print(answer["label"], answer["score"])

gpt = GPT2LMHeadModel(
    GPT2Config(vocab_size=16, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=2, eos_token_id=2)
)
write = pipeline("text-generation", model=gpt, tokenizer=tokenizer, device=device)
print(write("I liked the", max_new_tokens=5, do_sample=False, pad_token_id=0)[0]["generated_text"])
