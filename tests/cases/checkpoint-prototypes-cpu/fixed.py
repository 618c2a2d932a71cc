import io

import torch
from torch import nn

file = io.BytesIO()
torch.save({"mean": torch.rand(4), "model": nn.Linear(4, 2).state_dict()}, file)
file.seek(0)
checkpoint = torch.load(file, map_location="cuda")
model = nn.Linear(4, 2)
model.load_state_dict(checkpoint["model"])
model = model.cuda()
x = torch.rand(3, 4).cuda()
print(model(x - checkpoint["mean"]).shape)
