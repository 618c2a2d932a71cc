"""Losses on virtual GPUs equal those of the plain CPU run, bit for bit."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

from samedevice import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch

STEPS = 20
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
}


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        return torch.relu(x + self.norm(self.conv(x)))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), Residual(8), Residual(8))
        self.head = nn.Linear(8, 4)

    def loss(self, to: Callable[[Any], Any]) -> Any:
        images, labels = to(torch.randn(4, 3, 8, 8)), to(torch.randint(0, 4, (4,)))
        return F.cross_entropy(self.head(self.body(images).mean((2, 3))), labels)


class Tagger(nn.Module):
    """An LSTM over packed sequences; the lengths stay on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True, bidirectional=True, num_layers=2, dropout=0.1)
        self.head = nn.Linear(16, 3)

    def loss(self, to: Callable[[Any], Any]) -> Any:
        tokens, lengths = to(torch.randint(0, 20, (3, 7))), torch.tensor([7, 3, 5])
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return F.cross_entropy(self.head(states.mean(1)), to(torch.randint(0, 3, (3,))))


class Attention(nn.Module):
    """A small causal language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 32)

    def loss(self, to: Callable[[Any], Any]) -> Any:
        tokens = to(torch.randint(0, 32, (2, 9)))
        mask = nn.Transformer.generate_square_subsequent_mask(8, device=tokens.device)
        hidden = self.layer(self.embed(tokens[:, :-1]), src_mask=mask, is_causal=True)
        return F.cross_entropy(self.head(hidden).flatten(0, 1), tokens[:, 1:].flatten())


def _transformers(kind: str) -> Any:
    """A tiny model of the transformers library, with a `loss` like the others."""
    transformers = pytest.importorskip("transformers")
    tiny = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {"vocab_size": 32, **tiny}

    def on_tokens(to: Callable[[Any], Any]) -> dict[str, Any]:
        tokens = to(torch.randint(0, 32, (2, 8)))
        return {"input_ids": tokens, "labels": tokens}

    def on_images(to: Callable[[Any], Any]) -> dict[str, Any]:
        return {"pixel_values": to(torch.randn(2, 3, 8, 8)), "labels": to(torch.randint(0, 5, (2,)))}

    def on_sound(to: Callable[[Any], Any]) -> dict[str, Any]:
        return {"input_features": to(torch.randn(2, 4, 16)), "labels": to(torch.randint(3, 32, (2, 6)))}

    if kind == "Llama":
        model, batch = transformers.LlamaForCausalLM(transformers.LlamaConfig(**text)), on_tokens
    elif kind == "GPT-2":
        config = transformers.GPT2Config(vocab_size=32, n_embd=16, n_layer=2, n_head=2, n_positions=16)
        model, batch = transformers.GPT2LMHeadModel(config), on_tokens
    elif kind == "BERT":
        model, batch = transformers.BertForMaskedLM(transformers.BertConfig(**text)), on_tokens
    elif kind == "ViT":
        config = transformers.ViTConfig(**tiny, image_size=8, patch_size=4, num_labels=5)
        model, batch = transformers.ViTForImageClassification(config), on_images
    else:
        config = transformers.WhisperConfig(
            vocab_size=32,
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            num_mel_bins=4,
            max_source_positions=8,
            max_target_positions=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
        model, batch = transformers.WhisperForConditionalGeneration(config), on_sound
    model.train()
    model.loss_of = lambda to: model(**batch(to)).loss
    return model


MODELS: dict[str, Callable[[], Any]] = {
    "ResNet with batch norm": ResNet,
    "LSTM with packed sequences": Tagger,
    "transformer layer": Attention,
    **{
        kind: (lambda kind=kind: _transformers(kind)) for kind in ("Llama", "GPT-2", "BERT", "ViT", "Whisper")
    },
}


def _losses(make: Callable[[], Any], optimizer: Callable[[Any], Any], device: str) -> list[float]:
    torch.manual_seed(0)
    model = make().to(device)
    stepper = optimizer(model.parameters())
    losses = []
    for _ in range(STEPS):
        loss = getattr(model, "loss_of", None) or model.loss
        value = loss(lambda t: t.to(device))
        stepper.zero_grad()
        value.backward()
        stepper.step()
        losses.append(value.item())
    return losses


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    # The order of sums depends on the number of threads, on the CPU as well as here.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_losses_of_twenty_steps_are_the_cpus(model: str, optimizer: str) -> None:
    on_cpu = _losses(MODELS[model], OPTIMIZERS[optimizer], "cpu")
    with virtual_gpus(1):
        on_gpu = _losses(MODELS[model], OPTIMIZERS[optimizer], "cuda")

    assert on_gpu == on_cpu


def test_the_exact_tier_computes_the_same() -> None:
    on_cpu = _losses(Attention, OPTIMIZERS["AdamW"], "cpu")
    with virtual_gpus(1, exact=True):
        on_gpu = _losses(Attention, OPTIMIZERS["AdamW"], "cuda")

    assert on_gpu == on_cpu


class Halves(nn.Module):
    """A model cut over two devices."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.down, self.up = nn.Linear(6, 8).to(first), nn.Linear(8, 3).to(second)

    def loss(self) -> Any:
        hidden = torch.relu(self.down(torch.randn(4, 6).to(self.first)))
        return F.cross_entropy(self.up(hidden.to(self.second)), torch.randint(0, 3, (4,)).to(self.second))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_model_on_two_gpus_computes_the_same(optimizer: str) -> None:
    def train(first: str, second: str) -> list[float]:
        torch.manual_seed(0)
        model = Halves(first, second)
        stepper = OPTIMIZERS[optimizer](model.parameters())
        losses = []
        for _ in range(STEPS):
            loss = model.loss()
            stepper.zero_grad()
            loss.backward()
            stepper.step()
            losses.append(loss.item())
        return losses

    on_cpu = train("cpu", "cpu")
    with virtual_gpus(2):
        assert train("cuda:0", "cuda:1") == on_cpu


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_data_parallel_computes_what_the_cpu_computes_for_the_same_chunks(optimizer: str) -> None:
    def train(wrap: Callable[[Any], Any], device: str) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)
        parallel = wrap(model)
        stepper = OPTIMIZERS[optimizer](model.parameters())
        losses = []
        for _ in range(STEPS):
            x, y = torch.randn(6, 6).to(device), torch.randint(0, 3, (6,)).to(device)
            loss = F.cross_entropy(parallel(x), y)
            stepper.zero_grad()
            loss.backward()
            stepper.step()
            losses.append(loss.item())
        return losses

    def in_chunks(model: Any) -> Any:
        return lambda x: torch.cat([model(part) for part in x.chunk(2)])

    on_cpu = train(in_chunks, "cpu")
    with virtual_gpus(2):
        on_gpus = train(nn.DataParallel, "cuda")

    # The chunks' gradients are summed in another order than one batch's would be; two terms commute.
    assert on_gpus == on_cpu
