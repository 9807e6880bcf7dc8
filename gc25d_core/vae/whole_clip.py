"""Encode and decode of a whole clip in one differentiable pass, for training a demo VAE.

The same arithmetic as DiffSynth's streaming code (which goes cell by cell through caches), on the same modules' weights:
every convolution is causal in time with zeros in front, frame 0 passes the temporal samplings alone, and in the decoder the
temporal convolution before an up-sampling starts after frame 0. A test holds both against the streaming code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Fused = Callable[
    [torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor], tuple[torch.Tensor, torch.Tensor]
]
"""(y, bias, residual, gamma) to (x, padded): x = y + bias + residual; padded = silu(rms_norm(x) * gamma), two zero frames first."""


def add_norm_silu_pad(
    y: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, gamma: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """`Fused` in plain torch, for any device and dtype. Tensors are [B,C,T,H,W]."""
    x = _sum(y, bias, residual)
    n = F.silu(F.normalize(x, dim=1) * x.shape[1] ** 0.5 * gamma)
    return x, F.pad(n.to(x.dtype), (0, 0, 0, 0, 2, 0))


class WholeClip:
    """Whole-clip passes over a DiffSynth `VideoVAE38_`; latents here are raw (not normalised by mean and std)."""

    def __init__(self, model: Any, fused: Fused = add_norm_silu_pad) -> None:
        self.model, self.fused = model, fused

    def encode(self, video: torch.Tensor) -> torch.Tensor:
        """[B,3,T,H,W] in [-1,1] to the posterior mean [B,48,(T-1)//4+1,H/16,W/16]."""
        m, enc = self.model, self.model.encoder
        parts = _open(_conv(enc.conv1, _pad(_patchify(video))), enc.conv1)
        for stage in enc.downsamples:
            parts, entry = self._stage(stage.downsamples, parts, _down)
            parts = (_sum(*parts), None, _avg_down(stage.avg_shortcut, entry))
        out = self._head(enc.head, self._middle(enc.middle, parts))
        return F.conv3d(out, m.conv1.weight[: m.z_dim], m.conv1.bias[: m.z_dim])

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        """[B,48,cells,h,w] to [B,3,4*cells-3,16h,16w], not clamped."""
        m, dec = self.model, self.model.decoder
        x = F.conv3d(latent, m.conv2.weight, m.conv2.bias)
        parts = self._middle(dec.middle, _open(_conv(dec.conv1, _pad(x)), dec.conv1))
        for stage in dec.upsamples:
            parts, entry = self._stage(stage.upsamples, parts, _up)
            if stage.avg_shortcut is not None:
                parts = (_sum(*parts), None, _dup_up(stage.avg_shortcut, entry))
        return _unpatchify(self._head(dec.head, parts))

    def _stage(self, modules: Any, parts: Parts, sample: Callable[[Any, torch.Tensor], torch.Tensor]) -> Any:
        entry: torch.Tensor | None = None
        for module in modules:
            if hasattr(module, "residual"):
                parts, x = self._block(module, parts)
                entry = x if entry is None else entry
            else:
                parts = (sample(module, _sum(*parts)), None, None)
        return parts, entry

    def _block(self, block: Any, parts: Parts) -> tuple[Parts, torch.Tensor]:
        norm0, _, conv0, norm1, _, _, conv1 = block.residual
        x, padded = self.fused(*parts, norm0.gamma)
        _, padded = self.fused(_conv(conv0, padded), conv0.bias, None, norm1.gamma)
        short = block.shortcut
        skip = x if isinstance(short, torch.nn.Identity) else F.conv3d(x, short.weight, short.bias)
        return (_conv(conv1, padded), conv1.bias, skip), x

    def _middle(self, middle: Any, parts: Parts) -> Parts:
        first, attention, last = middle
        x = attention(_sum(*self._block(first, parts)[0]))
        return self._block(last, (x, None, None))[0]

    def _head(self, head: Any, parts: Parts) -> torch.Tensor:
        norm, _, conv = head
        _, padded = self.fused(*parts, norm.gamma)
        return _sum(*_open(_conv(conv, padded), conv))


Parts = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]
"""A tensor not yet summed: y, a bias for its channels, a residual."""


def _open(y: torch.Tensor, conv: Any) -> Parts:
    return y, conv.bias, None


def _sum(y: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None) -> torch.Tensor:
    y = y if bias is None else y + bias.view(-1, 1, 1, 1).to(y.dtype)
    return y if residual is None else y + residual


def _pad(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 0, 0, 0, 2, 0))


def _conv(conv: Any, padded: torch.Tensor) -> torch.Tensor:
    """A 3x3x3 convolution without its bias, whose two frames of causal padding are there already."""
    return F.conv3d(padded, conv.weight, padding=(0, 1, 1))


def _down(module: Any, x: torch.Tensor) -> torch.Tensor:
    conv = module.resample[1]
    x = _each_frame(x, lambda y: F.conv2d(F.pad(y, (0, 1, 0, 1)), conv.weight, conv.bias, stride=2))
    if module.mode == "downsample3d" and x.shape[2] > 1:
        rest = F.conv3d(x, module.time_conv.weight, module.time_conv.bias, stride=(2, 1, 1))
        x = torch.cat([x[:, :, :1], rest], dim=2)
    return x


def _up(module: Any, x: torch.Tensor) -> torch.Tensor:
    if module.mode == "upsample3d" and x.shape[2] > 1:
        b, c, t, h, w = x.shape
        rest = F.pad(x[:, :, 1:], (0, 0, 0, 0, 2, 0))
        rest = F.conv3d(rest, module.time_conv.weight, module.time_conv.bias)
        rest = rest.view(b, 2, c, t - 1, h, w).permute(0, 2, 3, 1, 4, 5).reshape(b, c, 2 * t - 2, h, w)
        x = torch.cat([x[:, :, :1], rest], dim=2)
    conv = module.resample[1]
    return _each_frame(
        x, lambda y: F.conv2d(F.interpolate(y, scale_factor=2, mode="nearest-exact"), conv.weight, conv.bias, padding=1)
    )


def _each_frame(x: torch.Tensor, image_op: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    b, c, t, h, w = x.shape
    y = image_op(x.permute(0, 2, 1, 3, 4).reshape(b * t, c, h, w))
    return y.view(b, t, *y.shape[1:]).permute(0, 2, 1, 3, 4)


def _avg_down(short: Any, x: torch.Tensor) -> torch.Tensor:
    ft, fs = short.factor_t, short.factor_s
    x = F.pad(x, (0, 0, 0, 0, (ft - x.shape[2] % ft) % ft, 0))
    b, c, t, h, w = x.shape
    x = x.permute(0, 2, 3, 4, 1).reshape(b, t // ft, ft, h // fs, fs, w // fs, fs, c).permute(0, 1, 3, 5, 7, 2, 4, 6)
    x = x.reshape(b, t // ft, h // fs, w // fs, short.out_channels, short.group_size).mean(dim=-1)
    return x.permute(0, 4, 1, 2, 3)


def _dup_up(short: Any, x: torch.Tensor) -> torch.Tensor:
    ft, fs, out = short.factor_t, short.factor_s, short.out_channels
    b, _, t, h, w = x.shape
    x = x.permute(0, 2, 3, 4, 1).repeat_interleave(short.repeats, dim=-1)
    x = x.reshape(b, t, h, w, out, ft, fs, fs).permute(0, 1, 5, 2, 6, 3, 7, 4)
    x = x.reshape(b, t * ft, h * fs, w * fs, out).permute(0, 4, 1, 2, 3)
    return x[:, :, ft - 1 :]


def _patchify(video: torch.Tensor) -> torch.Tensor:
    b, c, t, h, w = video.shape
    x = video.view(b, c, t, h // 2, 2, w // 2, 2).permute(0, 2, 3, 5, 1, 6, 4)
    return x.reshape(b, t, h // 2, w // 2, 4 * c).permute(0, 4, 1, 2, 3)


def _unpatchify(x: torch.Tensor) -> torch.Tensor:
    b, c, t, h, w = x.shape
    x = x.permute(0, 2, 3, 4, 1).reshape(b, t, h, w, c // 4, 2, 2).permute(0, 4, 1, 2, 6, 3, 5)
    return x.reshape(b, c // 4, t, 2 * h, 2 * w)
