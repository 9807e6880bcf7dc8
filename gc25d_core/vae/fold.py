"""Makes a trained VAE's normalised latents near 0 mean and unit scale, by changing its two 1x1x1 convolutions.

DiffSynth's class normalises latents by constants (`mean`, `std`) of the real Wan2.2 VAE. A model trained elsewhere has other
statistics; an affine map of each latent channel, folded into the encoder's last and undone in the decoder's first convolution,
brings them to the range that consumers of the real VAE expect, without changing a reconstruction.
"""

from __future__ import annotations

from typing import Any

import torch

from gc25d_core.vae.whole_clip import WholeClip

SMALLEST_SCALE = 1e-3
"""A channel that never moves is not blown up beyond this."""


@torch.no_grad()
def latent_statistics(
    model: Any, videos: list[torch.Tensor], mean: torch.Tensor, std: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation, float32 [48] each, of the normalised latents of `videos` ([3,T,H,W] in [-1,1])."""
    whole = WholeClip(model)
    latents = [whole.encode(v.unsqueeze(0))[0].float().flatten(1).cpu() for v in videos]
    normal = (torch.cat(latents, dim=1) - mean[:, None]) / std[:, None]
    return normal.mean(dim=1), normal.std(dim=1).clamp_min(SMALLEST_SCALE)


@torch.no_grad()
def fold_normalisation(model: Any, m: torch.Tensor, s: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> None:
    """Changes `model` in place so that a normalised latent n becomes (n - m) / s, and decodes as n did.

    With mu = mean + std * n: mu' = mean + (mu - mean) / s - std * m / s, and back mu = mean + s * (mu' - mean) + std * m.
    """
    enc, dec, z = model.conv1, model.conv2, model.z_dim
    m, s, mean, std = (v.to(enc.weight) for v in (m, s, mean, std))
    enc.weight[:z] /= s.view(-1, 1, 1, 1, 1)
    enc.bias[:z] = (enc.bias[:z] - mean - std * m) / s + mean
    shift = mean * (1 - s) + std * m
    dec.bias += dec.weight.flatten(1) @ shift
    dec.weight *= s.view(1, -1, 1, 1, 1)
