"""Train a small diffusion model and sample with three schedulers."""

import torch
from diffusers import DDIMScheduler, DDPMPipeline, DDPMScheduler, EulerDiscreteScheduler, UNet2DModel
from torch.nn.functional import mse_loss

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)

unet = UNet2DModel(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(8, 8),
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=4,
).to(device)
schedule = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
images = torch.randn(4, 1, 8, 8).tanh().to(device)

for _ in range(2):
    noise = torch.randn(images.shape).to(device)
    steps = torch.randint(0, 100, (4,)).to(device)
    noisy = schedule.add_noise(images, noise, steps)
    loss = mse_loss(unet(noisy, steps).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())

for scheduler in (
    schedule,
    DDIMScheduler(num_train_timesteps=100),
    EulerDiscreteScheduler(num_train_timesteps=100),
):
    generator = torch.Generator(device).manual_seed(1)
    scheduler.set_timesteps(3, device=device)
    sample = torch.randn(1, 1, 8, 8, generator=generator, device=device) * scheduler.init_noise_sigma
    with torch.no_grad():
        for t in scheduler.timesteps:
            predicted = unet(scheduler.scale_model_input(sample, t), t).sample
            sample = scheduler.step(predicted, t, sample, generator=generator).prev_sample
    print(type(scheduler).__name__, sample.sum().item())

pipeline = DDPMPipeline(unet, schedule).to(device)
pipeline.set_progress_bar_config(disable=True)
made = pipeline(generator=torch.Generator("cpu").manual_seed(2), num_inference_steps=2, output_type="np")
print("pipeline", float(made.images.sum()))
