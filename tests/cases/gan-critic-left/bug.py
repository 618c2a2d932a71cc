import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(latent, 8), nn.ReLU(), nn.Linear(8, 6))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def forward(self, x):
        return self.net(x)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = Generator().to(device)
    critic = Critic()
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for _ in range(2):
        real = torch.rand(5, 6, device=device)
        fake = generator(torch.randn(5, 4, device=device))
        loss = critic(fake.detach()).mean() - critic(real).mean()
        opt_c.zero_grad()
        loss.backward()
        opt_c.step()
        opt_g.zero_grad()
        (-critic(fake).mean()).backward()
        opt_g.step()


main()
