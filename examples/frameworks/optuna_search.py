"""Search hyperparameters with optuna: each trial trains a model of its own on the GPU."""

import optuna
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

optuna.logging.set_verbosity(optuna.logging.WARNING)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
inputs = torch.randn(64, 5)
targets = inputs.square().sum(1, keepdim=True).sqrt()
training = DataLoader(TensorDataset(inputs[:48], targets[:48]), batch_size=16)
held_out = DataLoader(TensorDataset(inputs[48:], targets[48:]), batch_size=16)


def build(trial: optuna.Trial) -> nn.Module:
    layers: list[nn.Module] = []
    width = 5
    for depth in range(trial.suggest_int("layers", 1, 2)):
        wider = trial.suggest_int(f"width {depth}", 4, 16, log=True)
        layers += [nn.Linear(width, wider), nn.Tanh()]
        width = wider
    return nn.Sequential(*layers, nn.Linear(width, 1))


def objective(trial: optuna.Trial) -> float:
    torch.manual_seed(trial.number)
    model = build(trial).to(device)
    kind = trial.suggest_categorical("optimizer", ["Adam", "SGD", "Rprop"])
    optimizer = getattr(torch.optim, kind)(
        model.parameters(), lr=trial.suggest_float("rate", 1e-3, 1e-1, log=True)
    )
    for epoch in range(4):
        for x, y in training:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            error = sum(nn.functional.l1_loss(model(x.to(device)), y.to(device)).item() for x, y in held_out)
        trial.report(error, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return error


study = optuna.create_study(
    sampler=optuna.samplers.TPESampler(seed=0), pruner=optuna.pruners.MedianPruner(n_startup_trials=3)
)
study.optimize(objective, n_trials=6)
for trial in study.trials:
    print(trial.number, trial.state.name, trial.value, trial.params)
print("best", study.best_params, study.best_value)
