"""Triton kernels of the fast encoder: the memory-bound work between its convolutions, each tensor read and written once.

All tensors are [T, H, W, C] contiguous (that is NCDHW with batch 1 in channels-last order), sums are taken in fp32.
`gc25d_core.vae.steps` has the same three steps in plain torch, which say what each kernel must compute.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

TILE_ELEMENTS = 4096


@triton.jit
def _add_norm_silu(
    y_ptr, bias_ptr, res_ptr, gamma_ptr, sum_ptr, out_ptr, rows, scale,
    C: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_R: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_RES: tl.constexpr, SUM: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    col = tl.arange(0, BLOCK_C)[None, :]
    at = row * C + col
    mask = (row < rows) & (col < C)
    x = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if HAS_BIAS:
        x += tl.load(bias_ptr + col, mask=col < C, other=0.0)
    if HAS_RES:
        x += tl.load(res_ptr + at, mask=mask, other=0.0).to(tl.float32)
    if SUM:
        tl.store(sum_ptr + at, x, mask=mask)
    if NORM:
        length = tl.sqrt(tl.sum(x * x, axis=1))[:, None]
        n = x / tl.maximum(length, 1e-12) * scale * tl.load(gamma_ptr + col, mask=col < C, other=0.0)
        tl.store(out_ptr + at, n / (1.0 + tl.exp(-n)), mask=mask)


@triton.jit
def _avg_down(
    x_ptr, out_ptr, rows, t_pad, H_out, W_out, H_in, W_in,
    C_IN: tl.constexpr, C_OUT: tl.constexpr, GROUP: tl.constexpr, FT: tl.constexpr, FS: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_R: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    col = tl.arange(0, BLOCK_C)[None, :]
    mask = (row < rows) & (col < C_OUT)
    t_out = row // (H_out * W_out)
    h_out = row // W_out % H_out
    w_out = row % W_out
    total = tl.zeros((BLOCK_R, BLOCK_C), dtype=tl.float32)
    for g in tl.static_range(GROUP):
        k = col * GROUP + g
        t_in = t_out * FT + k // (FS * FS) % FT - t_pad
        h_in = h_out * FS + k // FS % FS
        w_in = w_out * FS + k % FS
        at = ((t_in * H_in + h_in) * W_in + w_in) * C_IN + k // (FT * FS * FS)
        total += tl.load(x_ptr + at, mask=mask & (t_in >= 0), other=0.0).to(tl.float32)
    tl.store(out_ptr + row * C_OUT + col, total / GROUP, mask=mask)


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


def _blocks(channels: int) -> tuple[int, int]:
    block_c = triton.next_power_of_2(channels)
    return block_c, max(1, TILE_ELEMENTS // block_c)


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
    block_c, block_r = _blocks(channels)
    _add_norm_silu[(triton.cdiv(rows, block_r),)](
        y, _or(bias, y), _or(residual, y), _or(gamma, y), _or(total, y), _or(out, y), rows, channels**0.5,
        C=channels, BLOCK_C=block_c, BLOCK_R=block_r,
        HAS_BIAS=bias is not None, HAS_RES=residual is not None, SUM=total is not None, NORM=out is not None,
        num_warps=8,
    )  # fmt: skip


def avg_down(x: torch.Tensor, out: torch.Tensor, *, factor_t: int, factor_s: int, group: int) -> None:
    """DiffSynth's `AvgDown3D`, [T,H,W,C] to [ceil(T/ft), H/fs, W/fs, C*ft*fs*fs/group], zero frames padded in front."""
    t_out, h_out, w_out, c_out = out.shape
    rows = t_out * h_out * w_out
    block_c, block_r = _blocks(c_out)
    _avg_down[(triton.cdiv(rows, block_r),)](
        x, out, rows, t_out * factor_t - x.shape[0], h_out, w_out, x.shape[1], x.shape[2],
        C_IN=x.shape[3], C_OUT=c_out, GROUP=group, FT=factor_t, FS=factor_s, BLOCK_C=block_c, BLOCK_R=block_r,
        num_warps=8,
    )  # fmt: skip


def patches(frames: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
    """uint8 [T,H,W,3] through the 256-entry `table` to 2x2 patches [T,H/2,W/2,16] (12 channels and 4 zeros)."""
    t, h, w, _ = out.shape
    rows = t * h * w
    _patches[(triton.cdiv(rows, 256),)](frames, table, out, rows, h, w, BLOCK_R=256, num_warps=8)


def _or(tensor: torch.Tensor | None, stand_in: torch.Tensor) -> Any:
    return stand_in if tensor is None else tensor
