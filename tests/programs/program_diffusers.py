"""diffusers: a UNet trained with DDPM noise, three samplers, an autoencoder."""

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    UNet2DModel,
)
from harness import fill, numbers


def unet():
    return fill(UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
        block_out_channels=(16, 32), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), norm_num_groups=8,
    ))  # fmt: skip


def case_train_and_sample(record):
    model, schedule = unet(), DDPMScheduler(num_train_timesteps=100)
    noise, steps = numbers(2, 3, 16, 16, seed=1), torch.tensor([3, 50])
    noisy = schedule.add_noise(numbers(2, 3, 16, 16), noise, steps)
    optimizer, losses = torch.optim.AdamW(model.parameters(), 1e-4), []
    for _ in range(2):
        loss = torch.nn.functional.mse_loss(model(noisy, steps).sample, noise)
        loss.backward()
        record.gradients(model)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    record.put("losses", losses)
    model.eval()
    for kind in (DDIMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler):
        sampler = kind(num_train_timesteps=100)
        sampler.set_timesteps(3)
        x = numbers(1, 3, 16, 16, seed=5) * float(sampler.init_noise_sigma)
        with torch.no_grad():
            for step in sampler.timesteps:
                found = model(sampler.scale_model_input(x, step), step).sample
                x = sampler.step(found, step, x).prev_sample
        record.put(kind.__name__, x)


def case_autoencoder(record):
    model = fill(AutoencoderKL(in_channels=3, out_channels=3, block_out_channels=(16,),
                               norm_num_groups=8, latent_channels=4, sample_size=16))  # fmt: skip
    out = model(numbers(2, 3, 16, 16)).sample
    record.put("out", out)
    out.pow(2).mean().backward()
    record.gradients(model)
