"""Holds the encoders against DiffSynth's own encode at the real size, bit for bit where that is promised, and times all three.

    python -m gc25d_core.vae.exactness --clips 3                     # random weights of the real size (2.8 GB, made here)
    python -m gc25d_core.vae.exactness --clips 3 --vae Wan2.2_VAE.pth

Random weights have the real shapes, the real cost and the real rounding, but not the real values; with the published
checkpoint pass `--vae`. Exit code 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from gc25d_core.vae.checkpoint import load_vae
from gc25d_core.vae.encode import Encoder
from gc25d_core.vae.pixels import pixel_table, to_video
from gc25d_core.vae.provenance import ENCODER_REL_L2, STORED_REL_L2
from gc25d_core.vae.selfcheck import versions


def make_random_checkpoint(path: Path, seed: int = 0) -> None:
    """A file like Wan2.2_VAE.pth (same keys and shapes, float32) with random weights."""
    from diffsynth.models.wan_video_vae import VideoVAE38_

    torch.manual_seed(seed)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = VideoVAE38_()
    state = {k: v.detach().cpu() for k, v in model.state_dict().items()}
    for name, value in state.items():
        if name.endswith("proj.weight"):  # zero at birth, which would hide the attention
            value.normal_(std=0.02)
    torch.save(state, path)


def make_frames(count: int, size: tuple[int, int], frames: int = 81) -> list[torch.Tensor]:
    """Smooth random videos, uint8 [T,H,W,3]: cheap to make, and with detail at every scale."""
    width, height = size
    videos = []
    for seed in range(count):
        rng = torch.Generator().manual_seed(seed)
        video = torch.zeros(1, 3, frames, height, width)
        for cells in (4, 16, 64):
            noise = torch.randn(1, 3, 2 + frames // 8, cells, cells, generator=rng)
            video += F.interpolate(noise, size=(frames, height, width), mode="trilinear") * (4 / cells) ** 0.5
        levels = (video.sigmoid() * 255).to(torch.uint8)
        videos.append(levels[0].permute(1, 2, 3, 0).contiguous())
    return videos


def compare(vae: Any, videos: list[torch.Tensor], device: str, repeats: int) -> dict[str, Any]:
    """Errors and seconds of DiffSynth's call, `exact`, and on CUDA `fast`."""
    exact = Encoder(vae, "-", device=device, precision="exact")
    cuda = exact.device.type == "cuda"
    fast = Encoder(vae, "-", device=device, precision="fast") if cuda else None
    table = pixel_table()
    rows: list[dict[str, Any]] = []
    for frames in videos:
        x = to_video(frames, table)

        def direct(x: torch.Tensor = x) -> torch.Tensor:
            with torch.inference_mode():
                return vae.encode([x], device=device, tiled=False)[0]

        theirs, direct_s = _timed(direct, 1)
        clip, exact_s = _timed(lambda f=frames: exact.encode(f), 1)  # type: ignore[misc]
        ours = exact.encode_float(frames, "exact")
        row: dict[str, Any] = {
            "bits_equal": bool(torch.equal(ours, theirs))
            and bool(torch.equal(clip.latent, theirs.to(torch.bfloat16).cpu())),
            "max_difference": float((ours - theirs).abs().max()),
            "direct_s": direct_s,
            "exact_s": exact_s,
            "stored_exact_rel_l2": _rel_l2(clip.latent.to(device), theirs),
        }
        if fast is not None:
            _, row["fast_first_s"] = _timed(lambda f=frames: fast.encode_float(f, "fast"), 1)  # type: ignore[misc]
            unrounded, row["fast_s"] = _timed(lambda f=frames: fast.encode_float(f, "fast"), repeats)  # type: ignore[misc]
            stored = fast.encode(frames)
            row |= {
                "fast_rel_l2": _rel_l2(unrounded, theirs),
                "stored_fast_rel_l2": _rel_l2(stored.latent.to(device), theirs),
                "fast_precision_used": stored.precision_used,
            }
        rows.append(row)
        print(json.dumps(row), flush=True)
    result: dict[str, Any] = {"rows": rows}
    if fast is not None:
        result |= _streams({"exact": exact, "fast": fast}, videos)
        result["fast_peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
    return result


def promises_broken(result: dict[str, Any]) -> list[str]:
    """One sentence for each promise that the measurement does not bear out."""
    broken = []
    for i, row in enumerate(result["rows"]):
        if not row["bits_equal"]:
            broken.append(f"clip {i}: exact differs from DiffSynth by up to {row['max_difference']:.3g}")
        if row.get("fast_rel_l2", 0.0) > ENCODER_REL_L2:
            broken.append(f"clip {i}: fast is off by {row['fast_rel_l2']:.2e}, limit {ENCODER_REL_L2:.0e}")
        if row.get("stored_fast_rel_l2", 0.0) > STORED_REL_L2:
            broken.append(f"clip {i}: stored fast is off by {row['stored_fast_rel_l2']:.2e}, limit {STORED_REL_L2:.1e}")
    return broken


def _streams(encoders: dict[str, Encoder], videos: list[torch.Tensor]) -> dict[str, float]:
    """Clips a second through `encode_stream`, copies and rounding included."""
    rates = {}
    for name, encoder in encoders.items():
        count = 4 * len(videos) if name == "fast" else len(videos)
        pairs = ((i, videos[i % len(videos)]) for i in range(count))
        start = time.perf_counter()
        for _ in encoder.encode_stream(pairs):
            pass
        rates[f"{name}_stream_clips_per_s"] = round(count / (time.perf_counter() - start), 3)
    return rates


def profile_fast(vae: Any, frames: torch.Tensor, device: str) -> str:
    """The kernels that one fast clip spends its time in, as torch's table."""
    from torch.profiler import ProfilerActivity, profile

    encoder = Encoder(vae, "-", device=device, precision="fast")
    encoder.encode_float(frames, "fast")
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        encoder.encode_float(frames, "fast")
        torch.cuda.synchronize()
    return prof.key_averages().table(sort_by="cuda_time_total", row_limit=14, max_name_column_width=70)


def _timed(work: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """The last result, and the median of the seconds with the device's work finished."""
    seconds, result = [], None
    for _ in range(repeats):
        _finish()
        start = time.perf_counter()
        result = work()
        _finish()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _rel_l2(value: torch.Tensor, truth: torch.Tensor) -> float:
    return float((value.double() - truth.double()).norm() / truth.double().norm())


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clips", type=int, default=3)
    p.add_argument("--size", default="832x480")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--repeats", type=int, default=5, help="timed fast encodes of each clip; the median is shown")
    p.add_argument(
        "--vae", type=Path, help="a checkpoint; default: random weights of the real size in a temporary file"
    )
    p.add_argument("--json", type=Path, help="also write the result here")
    p.add_argument("--profile", action="store_true", help="show the kernels of one fast clip")
    a = p.parse_args(argv)
    width, height = (int(n) for n in a.size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        path = a.vae or Path(folder) / "Wan2.2_VAE.pth"
        if a.vae is None:
            make_random_checkpoint(path)
        start = time.perf_counter()
        vae = load_vae(path, a.device)
        print(
            f"{path.name}: {path.stat().st_size / 1e9:.2f} GB loaded in {time.perf_counter() - start:.1f} s", flush=True
        )
    videos = make_frames(a.clips, (width, height))
    result = {
        "date": datetime.date.today().isoformat(), "size": a.size, "weights": "random" if a.vae is None else a.vae.name,
        **versions(torch.device(a.device)), **compare(vae, videos, a.device, a.repeats),
    }  # fmt: skip
    broken = promises_broken(result)
    print(
        json.dumps({k: v for k, v in result.items() if k != "rows"}),
        *(broken or ["all promises hold"]),
        sep="\n",
        flush=True,
    )
    if a.json is not None:
        a.json.write_text(json.dumps(result, indent=1))
    if a.profile:
        print(profile_fast(vae, videos[0], a.device))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
