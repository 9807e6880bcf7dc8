"""Triton kernels of the fast encoder: the memory-bound work between its convolutions, each tensor read and written once.

All tensors are [T, H, W, C] contiguous (that is NCDHW with batch 1 in channels-last order), sums are taken in fp32.
`gc25d_core.vae.steps` has the same three steps in plain torch, which say what each kernel must compute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

TILES = {16: (256, 4), 32: (128, 4), 64: (64, 4), 128: (16, 8), 256: (8, 4), 512: (8, 8)}
"""(rows, warps) of a program, by the larger part of its channels; 128 and more as measured on an H200."""


@triton.jit
def _load_part(y_ptr, bias_ptr, res_ptr, at, col, mask, HAS_BIAS: tl.constexpr, HAS_RES: tl.constexpr):
    x = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if HAS_BIAS:
        x += tl.load(bias_ptr + col)
    if HAS_RES:
        x += tl.load(res_ptr + at, mask=mask, other=0.0).to(tl.float32)
    return x


@triton.jit
def _store_part(x, inv, gamma_ptr, out_ptr, at, col, mask):
    n = x * inv * tl.load(gamma_ptr + col)
    tl.store(out_ptr + at, n / (1.0 + tl.exp(-n)), mask=mask)


@triton.jit
def _add_norm_silu(
    y_ptr, bias_ptr, res_ptr, gamma_ptr, sum_ptr, out_ptr, rows, scale,
    C: tl.constexpr, C0: tl.constexpr, C1: tl.constexpr, BLOCK_R: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_RES: tl.constexpr, SUM: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    # C = C0 + C1, both powers of 2 (C1 may be 0): 160 = 128 + 32 wastes no lane, where one tile of 256 wastes 96.
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    mask = row < rows
    col0 = tl.arange(0, C0)[None, :]
    at0 = row * C + col0
    x0 = _load_part(y_ptr, bias_ptr, res_ptr, at0, col0, mask, HAS_BIAS, HAS_RES)
    square = tl.sum(x0 * x0, axis=1)
    if C1 > 0:
        col1 = C0 + tl.arange(0, C1)[None, :]
        at1 = row * C + col1
        x1 = _load_part(y_ptr, bias_ptr, res_ptr, at1, col1, mask, HAS_BIAS, HAS_RES)
        square += tl.sum(x1 * x1, axis=1)
    if SUM:
        tl.store(sum_ptr + at0, x0, mask=mask)
        if C1 > 0:
            tl.store(sum_ptr + at1, x1, mask=mask)
    if NORM:
        inv = (scale / tl.maximum(tl.sqrt(square), 1e-12))[:, None]
        _store_part(x0, inv, gamma_ptr, out_ptr, at0, col0, mask)
        if C1 > 0:
            _store_part(x1, inv, gamma_ptr, out_ptr, at1, col1, mask)


@triton.jit
def _avg_down_part(
    x_ptr, out_ptr, row, mask, base, t_in0, H_in, W_in,
    C: tl.constexpr, FROM: tl.constexpr, PART: tl.constexpr, GROUP: tl.constexpr, PER_CHANNEL: tl.constexpr, FS: tl.constexpr,
):  # fmt: skip
    col = FROM + tl.arange(0, PART)[None, :]
    for j in tl.static_range(PER_CHANNEL):
        total = tl.zeros((row.shape[0], PART), dtype=tl.float32)
        for g in tl.static_range(GROUP):
            # Which of the FT x FS x FS inputs of this output, as (t, h, w) steps from the first.
            t_step = (j * GROUP + g) // (FS * FS)
            step = (t_step * H_in + (j * GROUP + g) // FS % FS) * W_in + (j * GROUP + g) % FS
            seen = mask & (t_in0 + t_step >= 0)
            total += tl.load(x_ptr + (base + step) * C + col, mask=seen, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * (C * PER_CHANNEL) + col * PER_CHANNEL + j, total / GROUP, mask=mask)


@triton.jit
def _avg_down(
    x_ptr, out_ptr, rows, t_pad, H_out, W_out, H_in, W_in,
    C: tl.constexpr, C0: tl.constexpr, C1: tl.constexpr, GROUP: tl.constexpr, PER_CHANNEL: tl.constexpr,
    FT: tl.constexpr, FS: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    mask = row < rows
    t_in0 = row // (H_out * W_out) * FT - t_pad
    base = (t_in0 * H_in + row // W_out % H_out * FS) * W_in + row % W_out * FS
    _avg_down_part(x_ptr, out_ptr, row, mask, base, t_in0, H_in, W_in, C, 0, C0, GROUP, PER_CHANNEL, FS)
    if C1 > 0:
        _avg_down_part(x_ptr, out_ptr, row, mask, base, t_in0, H_in, W_in, C, C0, C1, GROUP, PER_CHANNEL, FS)


@triton.jit
def _patches(
    frames_ptr, table_ptr, out_ptr, rows, H, W,
    BLOCK_R: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    col = tl.arange(0, 16)[None, :]
    t, h, w = row // (H * W), row // W % H, row % W
    at = ((t * 2 * H + 2 * h + col % 2) * 2 * W + 2 * w + col // 2 % 2) * 3 + col // 4
    mask = (row < rows) & (col < 12)
    level = tl.load(frames_ptr + at, mask=mask, other=0).to(tl.int32)
    value = tl.load(table_ptr + level, mask=mask, other=0.0)
    tl.store(out_ptr + row * 16 + col, value, mask=row < rows)


def keep_compiled_in(folder: Path) -> None:
    """Where compiled kernels are kept, so that the next process need not compile (Triton's default is the home folder)."""
    if hasattr(triton, "knobs"):
        triton.knobs.cache.dir = str(folder)


def _parts(channels: int) -> tuple[int, int, int, int]:
    """C0 + C1 = channels with both powers of 2 (or C1 = 0), then rows and warps of a program."""
    large = 1 << (channels.bit_length() - 1)
    rest = channels - large
    if rest & (rest - 1):
        raise ValueError(f"{channels} channels are no sum of two powers of 2, which the kernels need")
    return large, rest, *TILES.get(large, (max(1, 4096 // large), 4))


def add_norm_silu(
    y: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    gamma: torch.Tensor | None,
    total: torch.Tensor | None,
    out: torch.Tensor | None,
) -> None:
    """x = y + bias + residual; into `total` goes x, into `out` silu(rms_norm(x) * gamma). Either may be None."""
    channels = y.shape[-1]
    rows = y.numel() // channels
    c0, c1, block_r, warps = _parts(channels)
    _add_norm_silu[(triton.cdiv(rows, block_r),)](
        y, _or(bias, y), _or(residual, y), _or(gamma, y), _or(total, y), _or(out, y), rows, channels**0.5,
        C=channels, C0=c0, C1=c1, BLOCK_R=block_r,
        HAS_BIAS=bias is not None, HAS_RES=residual is not None, SUM=total is not None, NORM=out is not None,
        num_warps=warps,
    )  # fmt: skip


def avg_down(x: torch.Tensor, out: torch.Tensor, *, factor_t: int, factor_s: int, group: int) -> None:
    """DiffSynth's `AvgDown3D`, [T,H,W,C] to [ceil(T/ft), H/fs, W/fs, C*ft*fs*fs/group], zero frames padded in front."""
    t_out, h_out, w_out, _ = out.shape
    rows = t_out * h_out * w_out
    c0, c1, block_r, warps = _parts(x.shape[3])
    per_channel, odd = divmod(factor_t * factor_s * factor_s, group)
    if odd:
        raise ValueError(f"groups of {group} cross the channels of a {factor_t}x{factor_s}x{factor_s} down-sampling")
    _avg_down[(triton.cdiv(rows, block_r),)](
        x, out, rows, t_out * factor_t - x.shape[0], h_out, w_out, x.shape[1], x.shape[2],
        C=x.shape[3], C0=c0, C1=c1, GROUP=group, PER_CHANNEL=per_channel, FT=factor_t, FS=factor_s, BLOCK_R=block_r,
        num_warps=warps,
    )  # fmt: skip


def patches(frames: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
    """uint8 [T,H,W,3] through the 256-entry `table` to 2x2 patches [T,H/2,W/2,16] (12 channels and 4 zeros)."""
    t, h, w, _ = out.shape
    rows = t * h * w
    _patches[(triton.cdiv(rows, 256),)](frames, table, out, rows, h, w, BLOCK_R=256, num_warps=8)


def _or(tensor: torch.Tensor | None, stand_in: torch.Tensor) -> Any:
    return stand_in if tensor is None else tensor
