"""The fast encoder's steps between convolutions, in plain torch: what `kernels` computes, for any device and dtype.

All tensors are [T, H, W, C] contiguous, the batch is 1.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def add_norm_silu(
    y: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    gamma: torch.Tensor | None,
    total: torch.Tensor | None,
    out: torch.Tensor | None,
) -> None:
    """x = y + bias + residual; into `total` goes x, into `out` silu(rms_norm(x) * gamma). Either may be None."""
    x = y if bias is None else y + bias.to(y.dtype)
    x = x if residual is None else x + residual
    if total is not None:
        total.copy_(x)
    if out is not None and gamma is not None:
        out.copy_(F.silu(F.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * gamma.to(x.dtype)))


def avg_down(x: torch.Tensor, out: torch.Tensor, *, factor_t: int, factor_s: int, group: int) -> None:
    """DiffSynth's `AvgDown3D`, [T,H,W,C] to [ceil(T/ft), H/fs, W/fs, C*ft*fs*fs/group], zero frames padded in front."""
    t_out, h_out, w_out, c_out = out.shape
    x = F.pad(x, (0, 0, 0, 0, 0, 0, t_out * factor_t - x.shape[0], 0))
    x = x.view(t_out, factor_t, h_out, factor_s, w_out, factor_s, x.shape[-1]).permute(0, 2, 4, 6, 1, 3, 5)
    out.copy_(x.reshape(t_out, h_out, w_out, c_out, group).mean(dim=-1))


def patches(frames: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
    """uint8 [T,H,W,3] through the 256-entry `table` to 2x2 patches [T,H/2,W/2,16] (12 channels and 4 zeros)."""
    t, h, w, _ = out.shape
    x = table[frames.int()].view(t, h, 2, w, 2, 3).permute(0, 1, 3, 5, 4, 2)
    out[..., :12].copy_(x.reshape(t, h, w, 12))
    out[..., 12:] = 0
