"""The fast encoder: the same model and values as DiffSynth's encode, not the same bits.

What makes it fast: fp16, channels-last, one long chunk in place of 20 chunks of 4 frames, and one kernel for each group of
memory-bound steps (bias, residual, norm, activation, temporal padding) between two convolutions.

Why one chunk is the same arithmetic. All convolutions are causal in time with zeros before frame 0. The only steps that see
chunk borders are the temporal down-samplings: frame 0 passes them alone, and every later pair (1,2), (3,4), ... becomes one.
So a first chunk of 1 + 4k frames, and then chunks of 4n frames, equal frame 0 alone and then chunks of 4. Between chunks each
convolution keeps its last two input frames (`_tails`), each temporal down-sampling its last one.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from gc25d_core.frames import cells_of
from gc25d_core.vae.pixels import pixel_table

FAST_VERSION = 1
"""Raise when the arithmetic changes: recorded self-checks of older versions are then asked again."""

TIMED_ALGORITHMS = 10
"""How many algorithms cuDNN times for each new shape (all of them would take minutes)."""

LIVE_TENSORS = 7
"""Full-resolution tensors alive at the peak, measured generously: input and sum of a block, buffer, convolution workspace."""


class FastEncoder:
    """Encoder of a loaded `WanVideoVAE38` (any width). Decoder weights are not touched.

    Args:
        vae: DiffSynth `WanVideoVAE38`; its fp32 weights are copied to `dtype`.
        device: where to compute. On CUDA the Triton kernels do the steps between convolutions, elsewhere plain torch.
        dtype: torch.float16 for speed; float32 and float64 serve to check the chunk arithmetic.
        chunk: largest number of frames at once after the first (a multiple of 4), or None for all of them.
        cache_dir: where compiled kernels are kept for the next process; None leaves them where Triton puts them.
    """

    def __init__(
        self,
        vae: Any,
        device: str | torch.device,
        dtype: torch.dtype = torch.float16,
        *,
        chunk: int | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        if chunk is not None and (chunk < 4 or chunk % 4):
            raise ValueError(f"chunk of {chunk} frames: expected a multiple of 4")
        self.device, self.dtype, self.chunk = torch.device(device), dtype, chunk
        self._wide = torch.float64 if dtype == torch.float64 else torch.float32
        if self.device.type == "cuda":
            from gc25d_core.vae import kernels as steps

            if cache_dir is not None:
                steps.keep_compiled_in(cache_dir / "triton")
        else:
            from gc25d_core.vae import steps  # type: ignore[no-redef]
        self._steps = steps
        self._weights: dict[int, torch.Tensor] = {}
        self._tails: dict[int, torch.Tensor] = {}
        self._keep_tails = False
        self._encoder, self._z_dim = vae.model.encoder, vae.z_dim
        self._table = pixel_table().to(self.device, dtype)
        z = self._z_dim
        self._head = vae.model.conv1.weight[:z].detach().flatten(1).to(self.device, self._wide)
        self._head_bias = vae.model.conv1.bias[:z].detach().to(self.device, self._wide)
        self._mean, self._inv_std = (s.to(self.device, self._wide) for s in vae.scale)

    @torch.inference_mode()
    def encode(self, frames: torch.Tensor) -> torch.Tensor:
        """Normalised posterior mean, float32 [48, (T-1)//4+1, H/16, W/16], of uint8 frames [T,H,W,3] on this device."""
        cells_of(frames.shape[0])
        chunk = self.chunk or max(4, frames.shape[0] - 1)
        first = 1 + min(chunk, frames.shape[0] - 1)
        borders = [0, first, *range(first + chunk, frames.shape[0], chunk), frames.shape[0]]
        spans = [(a, b) for a, b in itertools.pairwise(borders) if b > a]
        self._tails.clear()
        cells = []
        for i, (start, stop) in enumerate(spans):
            self._keep_tails = i + 1 < len(spans)
            with _tuned_convolutions():
                cells.append(self._features(frames[start:stop], first=i == 0))
        self._tails.clear()
        mu = F.linear(torch.cat(cells), self._head, self._head_bias)
        return ((mu - self._mean) * self._inv_std).permute(3, 0, 1, 2).contiguous()

    def _features(self, frames: torch.Tensor, *, first: bool) -> torch.Tensor:
        """The head's output in float32 [cells, H/16, W/16, 2*48], before the 1x1x1 convolution."""
        enc = self._encoder
        t, h, w, _ = frames.shape
        buffer, body = self._padded((t, h // 2, w // 2, 16), key=id(enc.conv1))
        self._steps.patches(frames.contiguous(), self._table, body)
        y = self._first_conv(buffer, enc.conv1)
        bias: torch.Tensor | None = self._bias(enc.conv1)
        residual: torch.Tensor | None = None
        for stage in enc.downsamples:
            y, bias, residual = self._stage(stage, y, bias, residual, first=first)
        block_in, attention, block_out = enc.middle
        y, bias, residual, _ = self._block(block_in, y, bias, residual)
        y, bias, residual, _ = self._block(
            block_out, self._attention(attention, self._sum(y, bias, residual)), None, None
        )
        norm, _, conv = enc.head
        buffer, body = self._padded(y.shape, key=id(conv))
        self._steps.add_norm_silu(y, bias, residual, self._gamma(norm), None, body)
        return self._conv3d(buffer, conv).to(self._wide) + self._bias(conv)

    def _stage(
        self, stage: Any, y: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, *, first: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        entry: torch.Tensor | None = None
        for module in stage.downsamples:
            if hasattr(module, "residual"):
                y, bias, residual, x = self._block(module, y, bias, residual)
                entry = x if entry is None else entry
            else:
                y, bias = self._down(module, self._sum(y, bias, residual), first=first)
                residual = None
        assert entry is not None
        short = stage.avg_shortcut
        ft, fs, group = short.factor_t, short.factor_s, short.group_size
        t, h, w, _ = entry.shape
        skip = entry.new_empty((t + ft - 1) // ft, h // fs, w // fs, short.out_channels)
        self._steps.avg_down(entry, skip, factor_t=ft, factor_s=fs, group=group)
        return y, bias, skip if residual is None else residual + skip

    def _block(
        self, block: Any, y: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """One residual block on x = y + bias + residual. Returns its own sum in the same three parts, and x."""
        norm0, _, conv0, norm1, _, _, conv1 = block.residual
        x = y if bias is None and residual is None else torch.empty_like(y)
        buffer, body = self._padded(y.shape, key=id(conv0))
        self._steps.add_norm_silu(y, bias, residual, self._gamma(norm0), None if x is y else x, body)
        mid = self._conv3d(buffer, conv0)
        buffer, body = self._padded(mid.shape, key=id(conv1))
        self._steps.add_norm_silu(mid, self._bias(conv0), None, self._gamma(norm1), None, body)
        out, out_bias = self._conv3d(buffer, conv1), self._bias(conv1)
        if isinstance(block.shortcut, torch.nn.Identity):
            return out, out_bias, x, x
        skip = F.linear(x, self._weight(block.shortcut).flatten(1))
        return out, out_bias + self._bias(block.shortcut), skip, x

    def _down(self, module: Any, x: torch.Tensor, *, first: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        conv = module.resample[1]
        # The model pads one zero column right and one row below. Padding two on every side and dropping the first output
        # of each axis reads the same pixels, and spares a copy of the whole tensor.
        y = F.conv2d(x.permute(0, 3, 1, 2), self._weight(conv), stride=2, padding=2)
        y = y.permute(0, 2, 3, 1)[:, 1:, 1:]
        if module.mode == "downsample2d":
            return y.contiguous(), self._bias(conv)
        y = (y + self._bias(conv).to(y.dtype)).contiguous()
        key = id(module.time_conv)
        past = y if first else torch.cat([self._tails[key], y])
        if self._keep_tails:
            self._tails[key] = y[-1:].clone()
        if past.shape[0] < 3:
            return y, None
        out = F.conv3d(_ncdhw(past), self._weight(module.time_conv), stride=(2, 1, 1))
        out = _thwc(out) + self._bias(module.time_conv).to(y.dtype)
        return (torch.cat([y[:1], out]) if first else out), None

    def _attention(self, block: Any, x: torch.Tensor) -> torch.Tensor:
        t, h, w, c = x.shape
        n = F.normalize(x.to(self._wide), dim=-1) * c**0.5 * self._gamma(block.norm)
        qkv = F.linear(n.to(self.dtype), self._weight(block.to_qkv).flatten(1), self._bias(block.to_qkv).to(self.dtype))
        q, k, v = qkv.view(t, 1, h * w, 3 * c).chunk(3, dim=-1)
        a = F.scaled_dot_product_attention(q, k, v).reshape(t, h, w, c)
        return x + F.linear(a, self._weight(block.proj).flatten(1), self._bias(block.proj).to(self.dtype))

    def _sum(self, y: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None) -> torch.Tensor:
        total = torch.empty_like(y)
        self._steps.add_norm_silu(y, bias, residual, None, total, None)
        return total

    def _padded(self, shape: Any, *, key: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A buffer with two frames before the body: zeros, or the last two input frames of the chunk before."""
        t, h, w, c = shape
        buffer = torch.empty((t + 2, h, w, c), dtype=self.dtype, device=self.device)
        tail = self._tails.get(key)
        if tail is None:
            buffer[:2] = 0
        else:
            buffer[:2] = tail
        return buffer, buffer[2:]

    def _conv3d(self, buffer: torch.Tensor, conv: Any) -> torch.Tensor:
        if self._keep_tails:
            self._tails[id(conv)] = buffer[-2:].clone()
        return _thwc(F.conv3d(_ncdhw(buffer), self._weight(conv), padding=(0, 1, 1)))

    def _first_conv(self, buffer: torch.Tensor, conv: Any) -> torch.Tensor:
        """The first convolution in two dimensions, over three frames side by side in the channels.

        A three-dimensional one with so few channels takes more than twice as long.
        """
        if self._keep_tails:
            self._tails[id(conv)] = buffer[-2:].clone()
        key = -id(conv.weight)
        if key not in self._weights:
            weight = self._weight(conv).permute(0, 2, 1, 3, 4).flatten(1, 2)
            self._weights[key] = weight.contiguous(memory_format=torch.channels_last)
        three = torch.cat([buffer[:-2], buffer[1:-1], buffer[2:]], dim=-1).permute(0, 3, 1, 2)
        return F.conv2d(three, self._weights[key], padding=1).permute(0, 2, 3, 1).contiguous()

    def _weight(self, conv: Any) -> torch.Tensor:
        key = id(conv.weight)
        if key not in self._weights:
            weight = conv.weight.detach().to(self.device, self.dtype)
            if conv is self._encoder.conv1:
                weight = F.pad(weight, (0, 0, 0, 0, 0, 0, 0, 16 - weight.shape[1]))
            layout = torch.channels_last_3d if weight.ndim == 5 else torch.channels_last
            pointwise = weight.shape[2:].numel() == 1
            self._weights[key] = weight.contiguous() if pointwise else weight.contiguous(memory_format=layout)
        return self._weights[key]

    def _bias(self, conv: Any) -> torch.Tensor:
        return self._vector(conv.bias)

    def _gamma(self, norm: Any) -> torch.Tensor:
        return self._vector(norm.gamma)

    def _vector(self, parameter: torch.Tensor) -> torch.Tensor:
        key = id(parameter)
        if key not in self._weights:
            self._weights[key] = parameter.detach().flatten().to(self.device, self._wide)
        return self._weights[key]


@contextlib.contextmanager
def _tuned_convolutions() -> Iterator[None]:
    """cuDNN times its algorithms once for each shape and takes the fastest: 0.19 s a clip in place of 0.23."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.benchmark_limit
    cudnn.benchmark, cudnn.benchmark_limit = True, TIMED_ALGORITHMS
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.benchmark_limit = before


def _ncdhw(x: torch.Tensor) -> torch.Tensor:
    """[T,H,W,C] as a channels-last [1,C,T,H,W] view."""
    return x.permute(3, 0, 1, 2).unsqueeze(0)


def _thwc(x: torch.Tensor) -> torch.Tensor:
    """[1,C,T,H,W] as [T,H,W,C] contiguous (no copy where the convolution kept channels last)."""
    return x[0].permute(1, 2, 3, 0).contiguous()
