"""Run a model that does not fit: spread over GPUs, offloaded to the CPU's memory and to the disk."""

import tempfile

import torch
from accelerate import (
    cpu_offload,
    disk_offload,
    dispatch_model,
    infer_auto_device_map,
    init_empty_weights,
    load_checkpoint_and_dispatch,
)
from safetensors.torch import save_file

gpus = torch.cuda.device_count()
gpu = 0 if gpus else "cpu"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Tower(torch.nn.Module):
    def __init__(self, depth: int = 4) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(16, 8)
        self.register_buffer("scale", torch.tensor([0.5]))
        self.blocks = torch.nn.ModuleList(Block() for _ in range(depth))
        self.head = torch.nn.Linear(8, 16)

    def forward(self, tokens):
        x = self.embed(tokens) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tower() -> Tower:
    torch.manual_seed(0)
    return Tower()


tokens = torch.arange(6)[None]

room = dict.fromkeys(range(gpus), "3KB") | {"cpu": "10MB"}
spread = infer_auto_device_map(tower(), max_memory=room, no_split_module_classes=["Block"])
with tempfile.TemporaryDirectory() as folder:
    model = dispatch_model(tower(), spread, offload_dir=folder)
    print("spread", model(tokens).sum().item())

print("offloaded to the CPU", cpu_offload(tower(), gpu)(tokens).sum().item())

with tempfile.TemporaryDirectory() as folder:
    print("offloaded to the disk", disk_offload(tower(), folder, gpu)(tokens).sum().item())

with tempfile.TemporaryDirectory() as folder:
    save_file(tower().state_dict(), f"{folder}/model.safetensors")
    with init_empty_weights():
        empty = Tower()
    model = load_checkpoint_and_dispatch(
        empty,
        f"{folder}/model.safetensors",
        device_map={
            "embed": gpu,
            "scale": gpu,
            "blocks.0": gpu,
            "blocks.1": "cpu",
            "blocks.2": "disk",
            "blocks.3": gpu,
            "head": gpu,
        },
        offload_folder=folder,
    )
    print("loaded in parts", model(tokens).sum().item())
