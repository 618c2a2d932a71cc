"""Save weights with safetensors; load them straight onto the GPU, whole and in parts."""

import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file, save_model

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(device)
inputs = torch.randn(3, 4).to(device)
print("before", model(inputs).sum().item())

with tempfile.TemporaryDirectory() as folder:
    file = f"{folder}/model.safetensors"
    save_file(model.state_dict(), file, metadata={"format": "pt"})

    weights = load_file(file, device=device)
    print("linear", torch.nn.functional.linear(inputs, weights["0.weight"], weights["0.bias"]).sum().item())

    with safe_open(file, framework="pt", device=device) as opened:
        print("names", sorted(opened.keys()), opened.metadata())
        rows = opened.get_slice("0.weight")[:2]
        print(
            "two rows",
            (rows @ inputs.T).sum().item(),
            opened.get_tensor("2.bias").device.type == torch.device(device).type,
        )

    again = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(device)
    again.load_state_dict(weights)
    print("after", again(inputs).sum().item())

    save_model(again, file)
    load_model(model, file, device=device)
    print("once more", model(inputs).sum().item())
