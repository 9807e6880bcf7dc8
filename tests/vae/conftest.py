"""A narrow random VAE of DiffSynth's own classes, and small videos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gc25d_core.vae.checkpoint import build_vae


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def _random_vae(dtype: torch.dtype = torch.float32, dim: int = 8) -> Any:
    """Every weight random, biases and gammas included: nothing may cancel or be zero by birth."""
    from diffsynth.models.wan_video_vae import VideoVAE38_

    torch.manual_seed(0)
    vae = build_vae(dim, dim)
    vae.model = VideoVAE38_(dim=dim, dec_dim=dim).eval().requires_grad_(False).to(dtype)
    for parameter in vae.model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.05)
    return vae


def _video(frames: int, height: int = 32, width: int = 64, seed: int = 0) -> np.ndarray:
    """uint8 [T,H,W,3] noise."""
    return np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)


@pytest.fixture(scope="session")
def narrow_vae() -> Any:
    return _random_vae()


@pytest.fixture(scope="session")
def random_vae() -> Callable[..., Any]:
    """Makes a fresh one: `random_vae(dtype=torch.float32, dim=8)`."""
    return _random_vae


@pytest.fixture(scope="session")
def video() -> Callable[..., np.ndarray]:
    """`video(frames, height=32, width=64, seed=0)`."""
    return _video
