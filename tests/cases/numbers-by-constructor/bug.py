import torch
from torch import nn


class Judge:
    def __init__(self):
        self.value = nn.Linear(2, 1).to("cuda")
        self.bounds = torch.FloatTensor([-1.0, 1.0])

    @torch.no_grad()
    def error(self, state, reward, over):
        state = torch.Tensor(state).to("cuda")
        reward = torch.Tensor([reward])
        over = torch.Tensor([over])
        goal = reward + 0.9 * (1 - over) * self.value(state)
        return goal + state * self.bounds


print(Judge().error([0.5, 1.0], 1.0, 0.0).shape)
