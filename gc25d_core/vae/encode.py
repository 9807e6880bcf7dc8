"""From uint8 frames to stored latents: one `Encoder` for a VAE, a device and a precision.

    encoder = open_encoder(path, device="cuda:0", precision="exact", cache_dir=cache)
    clip = encoder.encode(frames)                     # one clip
    for key, clip in encoder.encode_stream(pairs):    # many: the next clip is copied to the device while this one encodes

`exact` has the bits of DiffSynth's own `vae.encode([x_cpu], device=device, tiled=False)`. `fast` (CUDA only) has the same
values within `provenance.ENCODER_REL_L2`; where that does not hold the clip is encoded exactly, counted and said.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from gc25d_core.frames import cells_of
from gc25d_core.vae.checkpoint import load_vae
from gc25d_core.vae.fast import LIVE_TENSORS, FastEncoder
from gc25d_core.vae.identity import resolve_vae_path, vae_hash
from gc25d_core.vae.pixels import pixel_table, to_video
from gc25d_core.vae.selfcheck import SelfCheck, check_fast, versions
from gc25d_core.vae.transfer import Clock, Precision, Running, Upload, upload

log = logging.getLogger(__name__)

Key = TypeVar("Key")

CELL_PIXELS = 16
"""Side of a latent cell in pixels; H and W must be multiples of it."""

MEMORY_SHARE = 0.6
"""Share of the free device memory that one chunk of the fast encoder may plan with."""


@dataclass(frozen=True)
class EncodedClip:
    """One clip's latent and how it was made."""

    latent: torch.Tensor
    """bfloat16 [48, (T-1)//4+1, H/16, W/16] on the CPU, contiguous, owning its storage."""
    precision_used: Precision
    """`exact` where the request was `fast` but its check failed."""
    seconds: float
    """The device's time for this clip, its copy back included (wall time on a CPU)."""


@dataclass
class EncodeCounts:
    """What an encoder has done so far, for the step's metadata."""

    clips: int = 0
    exact: int = 0
    fast: int = 0
    fallbacks: int = 0
    """Clips for which `fast` was requested and `exact` was used."""
    seconds: float = 0.0


def open_encoder(
    vae: str | Path,
    *,
    device: str,
    precision: Precision,
    cache_dir: Path | None = None,
    threads: int = 1,
    chunk: int | None = None,
) -> Encoder:
    """Loads a VAE (`demo` or a path) and makes its encoder.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.
        precision: `exact`, or `fast` (CUDA only).
        cache_dir: where the VAE's hash, self-checks and compiled kernels are kept; None keeps the first two nowhere.
        threads: torch threads on the CPU (the number changes low bits, so it is pinned and recorded).
        chunk: frames at once in `fast` after the first chunk, a multiple of 4; None chooses by free memory.

    Raises:
        VaeFileError: see `checkpoint.load_vae`.
        ValueError: `fast` on a CPU.
    """
    path = resolve_vae_path(vae)
    return Encoder(
        load_vae(path, device), vae_hash(path, cache_dir),
        device=device, precision=precision, cache_dir=cache_dir, threads=threads, chunk=chunk,
    )  # fmt: skip


class Encoder:
    """Encodes clips and decodes latents with one loaded VAE. Not to be shared between threads."""

    def __init__(
        self,
        vae: Any,
        vae_hash: str,
        *,
        device: str,
        precision: Precision,
        cache_dir: Path | None = None,
        threads: int = 1,
        chunk: int | None = None,
    ) -> None:
        self.device = torch.device(device)
        if precision not in ("exact", "fast"):
            raise ValueError(f"precision {precision!r}: expected 'exact' or 'fast'")
        if precision == "fast" and self.device.type != "cuda":
            raise ValueError(f"precision 'fast' needs a CUDA device, got {device!r}; to do: use 'exact' on a CPU")
        self.vae, self.vae_hash, self.precision = vae, vae_hash, precision
        self.threads, self.cache_dir, self.chunk = threads, cache_dir, chunk
        self.counts = EncodeCounts()
        if self.device.type == "cuda":
            # Events and Triton launches go to the current device.
            self.device = torch.device(
                "cuda", torch.cuda.current_device() if self.device.index is None else self.device.index
            )
            torch.cuda.set_device(self.device)
        self._table = pixel_table().to(self.device)
        self._fast: FastEncoder | None = None
        self._fast_checks: dict[tuple[int, ...], SelfCheck] = {}
        self._copy_stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        torch.set_num_threads(threads)

    def encode(self, frames: np.ndarray | torch.Tensor) -> EncodedClip:
        """Encodes uint8 RGB frames [T,H,W,3], T % 4 == 1, H and W multiples of 16.

        Raises:
            ValueError: another T (never cut; T = 28 is explained), shape or dtype.
        """
        return self._finish(self._start(self._upload(frames)))

    def encode_stream(
        self, clips: Iterable[tuple[Key, np.ndarray | torch.Tensor]]
    ) -> Iterator[tuple[Key, EncodedClip]]:
        """Encodes (key, frames) pairs in order and keeps a CUDA device busy throughout.

        A clip is handed out once the next one is queued on the device, so that reading frames, copying them and what the
        caller does with a latent all happen while the device computes. At most two clips are held. Decode ahead in threads
        of your own: pulling from `clips` should be quick.
        """
        queued: tuple[Key, Running] | None = None
        for key, frames in clips:
            running = self._start(self._upload(frames))
            if queued is not None:
                yield queued[0], self._finish(queued[1])
            queued = key, running
        if queued is not None:
            yield queued[0], self._finish(queued[1])

    def warm_up(self, frames: np.ndarray | torch.Tensor) -> None:
        """Everything of `fast` that only the first clip of a shape pays for: kernels, cuDNN's choices, the self-check.

        Counts nothing. `exact` chooses nothing, so it has nothing to warm up.
        """
        if self.precision == "fast":
            self._start(self._upload(frames)).clock.seconds()

    def encode_float(self, frames: np.ndarray | torch.Tensor, precision: Precision) -> torch.Tensor:
        """The unrounded latent, float32 [48,cells,H/16,W/16] on the device: for checks and measurements."""
        sent = self._upload(frames)
        sent.wait()
        return self._exact(sent.frames) if precision == "exact" else self._fast_encoder(sent.frames).encode(sent.frames)

    def encode_first_cell(self, frame: np.ndarray | torch.Tensor, cells: int) -> torch.Tensor:
        """Cell 0 of a clip of so many cells from its first frame alone, uint8 [1,H,W,3] to float32 [48,1,H/16,W/16].

        `exact`'s arithmetic with the bits that the whole clip gives. Encoding one frame as a video of its own gives other low
        bits on a CPU: the last 1x1x1 convolution sees 1 cell instead of `cells`, and oneDNN then adds up in another order
        (seen: 1.4e-6). So the encoder runs on the frame, and that convolution on the frame's cell followed by zeros.
        """
        from diffsynth.models.wan_video_vae import patchify

        sent = self._upload(frame)
        sent.wait()
        model = self.vae.model
        with torch.inference_mode(), self._flags():
            video = patchify(to_video(sent.frames, self._table).unsqueeze(0), patch_size=2)
            model.clear_cache()
            features, _, _ = model.encoder(video, feat_cache=model._enc_feat_map, feat_idx=[0])
            model.clear_cache()
            padded = torch.cat(
                [features, features.new_zeros(*features.shape[:2], cells - 1, *features.shape[3:])], dim=2
            )
            mean = model.conv1(padded).chunk(2, dim=1)[0]
            shift, scale = (t.to(mean).view(1, -1, 1, 1, 1) for t in self.vae.scale)
            return ((mean - shift) * scale)[0, :, :1]

    def decode(self, latent: torch.Tensor) -> torch.Tensor:
        """DiffSynth's own decode: latent [48,cells,h,w] to float32 [3,T,H,W] in [-1,1] on the CPU."""
        if latent.ndim != 4 or latent.shape[0] != self.vae.z_dim:
            raise ValueError(f"latent: {latent.shape = }, expected [{self.vae.z_dim}, cells, H/16, W/16]")
        with torch.inference_mode(), self._flags():
            video = self.vae.decode([latent.to(torch.float32)], device=self.device, tiled=False)[0]
            return video.to("cpu")

    def provenance(self, precision_used: Precision | None = None) -> dict[str, Any]:
        """What the bits of a latent depend on, JSON-ready; `same_rule` compares two of them."""
        return {
            "vae_hash": self.vae_hash,
            "precision_requested": self.precision,
            "precision_used": precision_used or self.precision,
            "cpu_threads": self.threads if self.device.type == "cpu" else None,
            **versions(self.device),
        }

    def _upload(self, frames: np.ndarray | torch.Tensor) -> Upload:
        host = torch.from_numpy(np.ascontiguousarray(frames)) if isinstance(frames, np.ndarray) else frames.contiguous()
        if host.dtype != torch.uint8 or host.ndim != 4 or host.shape[3] != 3:
            raise ValueError(f"frames: {tuple(host.shape)} {host.dtype}, expected uint8 [T, H, W, 3]")
        cells_of(host.shape[0])
        if host.shape[1] % CELL_PIXELS or host.shape[2] % CELL_PIXELS:
            raise ValueError(f"frames: {tuple(host.shape)}, expected H and W to be multiples of {CELL_PIXELS}")
        return upload(host, self.device, self._copy_stream)

    def _start(self, sent: Upload) -> Running:
        """Queues all work on one clip; on CUDA this returns before the device is done."""
        sent.wait()
        clock = Clock(self.device)
        frames = sent.frames
        used: Precision
        finite: torch.Tensor | None
        latent = self._try_fast(frames) if self.precision == "fast" else None
        if latent is not None:
            used, finite = "fast", torch.isfinite(latent).all()
        else:
            latent, used, finite = self._exact(frames), "exact", None
        stored = latent.to(torch.bfloat16)
        if self.device.type == "cuda":
            host = torch.empty(stored.shape, dtype=torch.bfloat16, pin_memory=True)
            stored = host.copy_(stored, non_blocking=True)
        clock.stop()
        return Running(sent, stored, used, finite, clock)

    def _finish(self, running: Running) -> EncodedClip:
        """Waits for a started clip; one whose fast values are not finite is encoded exactly here."""
        seconds, used, stored = running.clock.seconds(), running.used, running.stored
        if running.finite is not None and not bool(running.finite):
            log.warning("fast encoding gave non-finite values; this clip is encoded exactly")
            start = time.perf_counter()
            stored, used = self._exact(running.upload.frames).to(torch.bfloat16).to("cpu"), "exact"
            seconds += time.perf_counter() - start
        self.counts.clips += 1
        self.counts.exact += used == "exact"
        self.counts.fast += used == "fast"
        self.counts.fallbacks += used != self.precision
        self.counts.seconds += seconds
        # Clone, never a view or a pinned buffer: a saved view carries its whole storage with it.
        return EncodedClip(latent=stored.contiguous().clone(), precision_used=used, seconds=seconds)

    def _exact(self, frames: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode(), self._flags():
            video = to_video(frames, self._table).unsqueeze(0)
            # What `vae.encode` does after its copy to the CPU and back, which cannot change a bit.
            return self.vae.single_encode(video, self.device).squeeze(0)

    def _try_fast(self, frames: torch.Tensor) -> torch.Tensor | None:
        """The fast latent, not yet known to be finite; None where the self-check failed or memory ran out."""
        if not self._fast_holds(frames):
            return None
        try:
            return self._fast_encoder(frames).encode(frames)
        except torch.OutOfMemoryError:
            log.warning("the fast encoder ran out of device memory; this clip is encoded exactly")
            torch.cuda.empty_cache()
            return None

    def _fast_holds(self, frames: torch.Tensor) -> bool:
        shape = tuple(frames.shape)
        if shape not in self._fast_checks:
            fast = self._fast_encoder(frames)
            self._fast_checks[shape] = check_fast(
                self._exact, fast.encode, frames, cache_dir=self.cache_dir, vae_hash=self.vae_hash, chunk=fast.chunk
            )
            log.info("%s", self._fast_checks[shape].sentence())
        return self._fast_checks[shape].passed

    def _fast_encoder(self, frames: torch.Tensor) -> FastEncoder:
        if self._fast is None:
            chunk = self.chunk or _chunk_that_fits(frames, self.vae.model.dim, self.device)
            self._fast = FastEncoder(self.vae, self.device, chunk=chunk, cache_dir=self.cache_dir)
        return self._fast

    @contextlib.contextmanager
    def _flags(self) -> Iterator[None]:
        """Torch's default flags and this encoder's threads, whatever other code in the process has set."""
        torch.set_num_threads(self.threads)
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        before = cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32
        cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32 = False, False, True, False
        try:
            yield
        finally:
            cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32 = before


def _chunk_that_fits(frames: torch.Tensor, dim: int, device: torch.device) -> int:
    """Frames for one chunk: all of them, or the multiple of 4 that plans with a share of the free device memory."""
    t, h, w, _ = frames.shape
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 1 << 33
    per_frame = LIVE_TENSORS * (h // 2) * (w // 2) * dim * 2
    return max(4, min(t - 1, int(free * MEMORY_SHARE / per_frame)) // 4 * 4)
