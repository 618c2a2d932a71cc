"""diffusers' schedulers, models and pipelines on virtual GPUs."""

from pathlib import Path

import pytest

pytest.importorskip("diffusers")

import diffusers
import torch

from samedevice import virtual_gpus
from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of

pytestmark = pytest.mark.torch


def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found() -> None:
    assert_runs_as_on_the_cpu("diffusers_ddpm")


SCHEDULERS = """
    DDPMScheduler DDIMScheduler EulerDiscreteScheduler EulerAncestralDiscreteScheduler
    DPMSolverMultistepScheduler DPMSolverSinglestepScheduler PNDMScheduler HeunDiscreteScheduler
    UniPCMultistepScheduler DEISMultistepScheduler LCMScheduler
    FlowMatchEulerDiscreteScheduler
""".split()


def _sample(name: str, device: str) -> list[float]:
    scheduler = getattr(diffusers, name)()
    generator = torch.Generator().manual_seed(0)
    scheduler.set_timesteps(4, device=device)
    sample = torch.randn(1, 1, 2, 2, generator=generator).to(device)
    for t in scheduler.timesteps:
        scale = getattr(scheduler, "scale_model_input", lambda sample, t: sample)
        more = {"generator": generator} if "generator" in scheduler.step.__code__.co_varnames else {}
        sample = scheduler.step(scale(sample, t) * 0.1, t, sample, **more).prev_sample
    return sample.flatten().tolist()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_steps_as_on_the_cpu(name: str) -> None:
    on_cpu = _sample(name, "cpu")
    with virtual_gpus(1):
        assert _sample(name, "cuda") == on_cpu


MISTAKES = {
    "index-on-other-device": """
import torch
from diffusers import DDPMScheduler

schedule = DDPMScheduler(num_train_timesteps=100)  # mistake
images = torch.randn(4, 1, 8, 8, device="cuda")
steps = torch.randint(0, 100, (4,), device="cuda")
signal = schedule.alphas_cumprod[steps]
print((images * signal.view(-1, 1, 1, 1)).sum().item())
""",
    "generator-on-other-device": """
import torch
from diffusers import DDPMScheduler

schedule = DDPMScheduler(num_train_timesteps=100)
generator = torch.Generator().manual_seed(0)  # mistake
schedule.set_timesteps(2, device="cuda")
sample = torch.randn(1, 1, 8, 8, generator=generator, device="cuda")
print(schedule.step(sample, schedule.timesteps[0], sample).prev_sample.sum().item())
""",
}


@pytest.mark.parametrize("rule", MISTAKES)
def test_the_mistake_is_found_with_its_cause(rule: str, tmp_path: Path) -> None:
    (diagnostic,) = found(MISTAKES[rule], tmp_path)

    assert diagnostic.rule == rule
    assert diagnostic.location.line == line_of(MISTAKES[rule])
