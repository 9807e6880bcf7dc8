"""From uint8 to the VAE's [-1, 1]: a table, because a GPU may divide or multiply-add to one ulp beside the CPU."""

from __future__ import annotations

import torch


def pixel_table() -> torch.Tensor:
    """float32 [256] on the CPU: level i to i * (2/255) - 1, the two roundings of DiffSynth's `preprocess_image`."""
    levels = torch.arange(256, dtype=torch.float32)
    return levels * (2 / 255) + -1


def to_video(frames: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """uint8 [T,H,W,3] to float32 [3,T,H,W] contiguous, on the device of both arguments."""
    return table[frames.int()].permute(3, 0, 1, 2).contiguous()
