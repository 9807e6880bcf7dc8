"""Deep check of one clip's latents: encoded anew, frame 0 encoded alone, decoded and compared with the picture.

Encoding anew is always `exact`: equal bits are asked for where the stored latent was made exactly under the same device,
versions, flags and threads (`vae.same_rule`), the tolerance everywhere else, and the result names the rule.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gc25d_core.errors import OutputError, SourceError
from gc25d_core.geometry import Geometry
from gc25d_core.images import ImageFault, decode_rgb, resample_rgb
from gc25d_core.outputs.files import read_latents
from gc25d_core.rows import Row
from gc25d_core.settings import Settings
from gc25d_core.vae.provenance import STORED_REL_L2, Rule
from gc25d_core.verify.raw_source import RawRun, area
from gc25d_core.verify.results import CheckResult, Findings

if TYPE_CHECKING:
    import torch

    from gc25d_core.vae import Encoder

PSNR_FAIL_DB = 18.0
PSNR_USUAL_DB = (21.0, 40.0)
PIXEL_LEVELS = 1.0
"""Frames decoded and resampled in two ways may differ by so many of 255 levels, in the mean of a frame."""


def default_spot_vae(settings: Settings) -> int:
    """Clips that are encoded anew unless told otherwise: 4 on a GPU, 1 on a CPU, where one takes most of a minute."""
    return 4 if settings.device == "cuda" else 1


def spot_vae(settings: Settings, rows: Sequence[Row], *, decode: bool = True) -> list[CheckResult]:
    """Re-encode, cell 0 and reconstruction of some clips, with one encoder.

    Args:
        decode: also decode and measure the PSNR; it takes longer than the encode.

    Raises:
        SystemFault: no GPU, no VAE. What lies on the disk never raises.
    """
    again = Findings("spot_reencode", "stored latent equals (rule: bits) or is within the tolerance of an exact encode")
    cell0 = Findings("spot_cell0", "cell 0 of the latent is the encode of frame 0 alone")
    pixels = Findings(
        "spot_pixels", f"frames two ways decoded and resampled differ by <= {PIXEL_LEVELS} levels in the mean"
    )
    low = Findings("spot_psnr", f"reconstruction >= {PSNR_FAIL_DB} dB")
    odd = Findings("spot_psnr_usual", f"reconstruction within {PSNR_USUAL_DB[0]}-{PSNR_USUAL_DB[1]} dB", "warn")
    checks = [pixels, again, cell0, *([low, odd] if decode else [])]
    if not rows:
        return [c.result(applicable=False) for c in checks]
    encoder = _open_encoder(settings)
    for row in rows:
        at: dict[str, Any] = {"run": row.run, "clip": row.clip}
        begun = time.perf_counter()
        for c in checks:
            c.clips += 1
        try:
            stored = read_latents(settings.paths.latents(row.clip))
            frames, difference = clip_frames_two_ways(settings, row)
        except (OutputError, SourceError, ImageFault, KeyError, OSError, ValueError) as e:
            for c in checks:
                c.add(f"cannot be checked: {type(e).__name__}: {e}", **at)
            continue
        pixels.figure.setdefault("levels", {})[row.clip] = round(difference, 4)
        if difference > PIXEL_LEVELS:
            pixels.add(f"frames differ by {difference:.2f} levels in the mean of a frame", **at)
        rule = _rule(stored.provenance, encoder)
        cells = stored.latent_bits.shape[1]
        _compare(again, encoder.encode_float(frames, "exact"), stored.latent_bits, rule, at)
        _compare(cell0, encoder.encode_first_cell(frames[:1], cells), stored.latent_bits[:, :1], rule, at)
        alone = Rule(
            bits=False, rel_l2=STORED_REL_L2, why="tolerance: frame 0 as a video of its own has other low bits"
        )
        _compare(cell0, encoder.encode_float(frames[:1], "exact"), stored.latent_bits[:, :1], alone, at, name="alone_")
        if decode:
            db = psnr(_decoded(encoder, stored.latent()), frames)
            low.figure.setdefault("psnr_db", {})[row.clip] = round(db, 2)
            if not db >= PSNR_FAIL_DB:
                low.add(f"reconstruction of {db:.2f} dB", **at)
            if not PSNR_USUAL_DB[0] <= db <= PSNR_USUAL_DB[1]:
                odd.add(f"reconstruction of {db:.2f} dB", **at)
        again.figure.setdefault("seconds", {})[row.clip] = round(time.perf_counter() - begun, 2)
    return [c.result() for c in checks]


def _open_encoder(settings: Settings) -> Encoder:
    from gc25d_core.vae import open_encoder

    return open_encoder(
        settings.vae,
        device=settings.device,
        precision="exact",
        cache_dir=settings.paths.cache,
        threads=settings.cpu_threads,
    )


def _rule(provenance: dict[str, Any], encoder: Encoder) -> Rule:
    from gc25d_core.vae import same_rule

    return same_rule(provenance, encoder.provenance("exact"))


def clip_frames_two_ways(settings: Settings, row: Row) -> tuple[np.ndarray, float]:
    """The 81 frames at target size as the encoder saw them, uint8 [81,H,W,3], and how far they are from a second decoder and
    an exact area average, in levels: the largest mean over the frames looked at (every 16th)."""
    raw = RawRun(settings.src, row.run)
    size = (raw.info["image_size"][0], raw.info["image_size"][1])
    geometry = Geometry.fit(size, settings.size)
    frames = range(row.s, row.s + 81)
    made = np.stack([resample_rgb(decode_rgb(raw.read(f, "jpg"), size), geometry) for f in frames])
    apart = [float(np.abs(area(raw.rgb(frames[i]), settings.size) - made[i]).mean()) for i in range(0, 81, 16)]
    return made, max(apart)


def _compare(
    found: Findings, fresh: torch.Tensor, bits: np.ndarray, rule: Rule, at: dict[str, Any], *, name: str = ""
) -> None:
    """Stored bf16 bits against float32 encoded anew; the figures are filed under `name`."""
    import torch

    fresh = fresh.to("cpu")
    stored = torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16)
    if stored.shape != fresh.shape:
        found.add(f"stored latent has shape {list(stored.shape)}, encoded anew {list(fresh.shape)}", **at)
        return
    most = float((stored.float() - fresh.to(torch.bfloat16).float()).abs().max())
    rel = float((stored.double() - fresh.double()).norm() / fresh.double().norm())
    found.figure.setdefault(f"{name}max_difference", {})[at["clip"]] = most
    found.figure.setdefault(f"{name}rel_l2", {})[at["clip"]] = rel
    found.figure.setdefault(f"{name}rule", {})[at["clip"]] = rule.why
    if rule.bits and most != 0:
        found.add(f"largest difference {most:.4g}, expected 0 ({rule.why}); relative L2 {rel:.3g}", **at)
    elif not rule.bits and not rel <= rule.rel_l2:
        found.add(f"relative L2 {rel:.4g}, expected <= {rule.rel_l2:g} ({rule.why})", **at)


def _decoded(encoder: Encoder, latent: Any) -> np.ndarray:
    """float32 [81,H,W,3] in 0..255."""
    video = encoder.decode(latent).clamp(-1, 1)
    return ((video + 1) * 127.5).permute(1, 2, 3, 0).numpy()


def psnr(decoded: np.ndarray, frames: np.ndarray) -> float:
    """Peak signal to noise ratio over all pixels of all frames, dB; peak 255. Both [T,H,W,3] in 0..255."""
    squared = sum(float(((a.astype(np.float64) - b) ** 2).mean()) for a, b in zip(decoded, frames, strict=True)) / len(
        frames
    )
    return float("inf") if squared == 0 else float(10 * np.log10(255.0**2 / squared))
