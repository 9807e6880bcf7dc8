"""Run by test_kernels in a process of its own with Triton's interpreter on: each kernel against plain torch, on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from gc25d_core.vae import kernels, steps, train_kernels, whole_clip
from gc25d_core.vae.pixels import pixel_table


def check_add_norm_silu(dtype: torch.dtype, channels: int) -> None:
    y = torch.randn(3, 4, 6, channels).to(dtype)
    residual, bias, gamma = torch.randn_like(y), torch.randn(channels), torch.randn(channels)
    cases: list[tuple[Any, Any, bool, bool]] = [
        (bias, residual, True, True), (None, residual, True, False), (bias, None, True, False),
        (bias, residual, False, True), (None, None, True, False),
    ]  # fmt: skip
    for b, r, norm, total in cases:
        ours = [torch.full_like(y, float("nan")) for _ in range(2)]
        plain = [torch.full_like(y, float("nan"), dtype=torch.float32) for _ in range(2)]
        for module, (s, o), x in ((kernels, ours, y), (steps, plain, y.float())):
            module.add_norm_silu(x, b, r, gamma if norm else None, s if total else None, o if norm else None)
        limit = 1e-5 if dtype == torch.float32 else 4e-3
        for asked, a, p in ((total, ours[0], plain[0]), (norm, ours[1], plain[1])):
            assert not asked or torch.allclose(a.float(), p, rtol=limit, atol=limit), (
                dtype,
                channels,
                (a - p).abs().max(),
            )


def check_avg_down(dtype: torch.dtype) -> None:
    shapes = ((5, 2, 2, 16, 32), (4, 2, 2, 16, 32), (5, 1, 2, 20, 20), (3, 1, 1, 8, 8), (1, 2, 2, 24, 48))
    for t, ft, fs, c_in, c_out in shapes:
        x = torch.randn(t, 4, 6, c_in).to(dtype)
        ours = x.new_full(((t + ft - 1) // ft, 4 // fs, 6 // fs, c_out), float("nan"))
        plain = ours.clone()
        for module, out in ((kernels, ours), (steps, plain)):
            module.avg_down(x, out, factor_t=ft, factor_s=fs, group=c_in * ft * fs * fs // c_out)
        assert torch.allclose(ours, plain, rtol=1e-3, atol=1e-3), (t, ft, fs, (ours - plain).abs().max())


def check_patches() -> None:
    frames = torch.randint(0, 256, (5, 8, 12, 3), dtype=torch.uint8)
    ours, plain = (torch.full((5, 4, 6, 16), float("nan"), dtype=torch.float16) for _ in range(2))
    for module, out in ((kernels, ours), (steps, plain)):
        module.patches(frames, pixel_table().half(), out)
    assert torch.equal(ours, plain)


def check_gradients() -> None:
    train_kernels.BACKWARD_PROGRAMS, train_kernels.TILE_ELEMENTS = 3, 256
    y, residual, grad_x = torch.randn(3, 2, 12, 3, 4, 6).unbind()
    bias, gamma, grad_out = torch.randn(12), torch.randn(12, 1, 1, 1), torch.randn(2, 12, 5, 4, 6)
    for use_bias, use_residual, use_x in ((1, 1, 1), (0, 0, 0), (1, 0, 1), (0, 1, 0)):
        gradients = []
        for function in (whole_clip.add_norm_silu_pad, train_kernels.add_norm_silu_pad):
            inputs = [t.clone().requires_grad_() for t in (y, bias, residual, gamma)]
            x, out = function(
                inputs[0], inputs[1] if use_bias else None, inputs[2] if use_residual else None, inputs[3]
            )
            loss = (out * grad_out).sum() + use_x * (x * grad_x).sum()
            gradients.append((x, out, *torch.autograd.grad(loss, inputs, allow_unused=True)))
        for a, b in zip(*gradients, strict=True):
            assert (a is None) == (b is None) and (a is None or torch.allclose(a, b, rtol=1e-4, atol=1e-4))


if __name__ == "__main__":
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float16):
        for channels in (16, 160, 24):
            check_add_norm_silu(dtype, channels)
        check_avg_down(dtype)
    check_patches()
    check_gradients()
    print("all kernels agree")
