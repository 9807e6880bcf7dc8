"""Trains the narrow demo VAE on synthetic scenes, and measures it on scenes that it never saw.

    python -m gc25d_core.vae.train_demo --out DIR --minutes 9        # one GPU; writes DIR/demo_vae.safetensors
    python -m gc25d_core.vae.train_demo --out DIR --minutes 9 --resume DIR/weights.safetensors
    python -m gc25d_core.vae.train_demo --out DIR --minutes 0 --resume ...   # no training: export and measure

What matters for the figure (PSNR of 81-frame clips through the streaming encoder and decoder):
- The last phase trains on whole 81-frame clips at full size. The model sees 100 frames and 300 pixels around each point;
  trained on short crops alone, it never meets the inside of a clip, and its picture drifts past the trained length.
- The loss is the logarithm of each sample's squared error, which is PSNR itself: easy and hard scenes weigh the same.
- The step is one CUDA graph with fused norm kernels: a narrow model is otherwise bound by kernel launches.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from gc25d_core.vae.checkpoint import build_vae, load_vae, save_demo
from gc25d_core.vae.fold import fold_normalisation, latent_statistics
from gc25d_core.vae.train_data import TARGET_SIZE, ClipRenderer
from gc25d_core.vae.whole_clip import WholeClip, add_norm_silu_pad

WARMUP_STEPS = 200
EMA_DECAY = 0.998
CHECKPOINT_SECONDS = 60.0
MSE_FLOOR = 1e-5


@dataclass(frozen=True)
class Phase:
    """Part of the training: until this share of the time, on crops of this size."""

    until: float
    frames: int
    height: int
    width: int
    batch: int


PHASES = (Phase(0.25, 17, 128, 128, 16), Phase(0.45, 33, 160, 160, 8), Phase(1.0, 81, 240, 416, 1))
FINE_PHASES = (Phase(1.0, 81, 240, 416, 2),)
"""For continuing a trained model."""


class Pool:
    """Clips on the device, uint8 [n,81,240,416,3], and random crops of them."""

    def __init__(self, capacity: int, frames: int, device: torch.device) -> None:
        w, h = TARGET_SIZE
        self.clips = torch.empty((capacity, frames, h, w, 3), dtype=torch.uint8, device=device)
        self.count = 0

    def add(self, clips: list[np.ndarray]) -> None:
        for clip in clips:
            if self.count < len(self.clips):
                self.clips[self.count].copy_(torch.from_numpy(clip))
                self.count += 1

    def crop_into(self, out: torch.Tensor, rng: np.random.Generator) -> None:
        """Fills uint8 [B,T,h,w,3] with random crops, half of them mirrored."""
        _, t, h, w, _ = out.shape
        _, ft, fh, fw, _ = self.clips.shape
        for b in range(out.shape[0]):
            i = int(rng.integers(self.count))
            t0, y0, x0 = (int(rng.integers(n + 1)) for n in (ft - t, fh - h, fw - w))
            crop = self.clips[i, t0 : t0 + t, y0 : y0 + h, x0 : x0 + w]
            out[b].copy_(crop.flip(2) if rng.random() < 0.5 else crop)


class Trainer:
    """Model, optimizer and moving average; one step on a static buffer, as a CUDA graph where there is CUDA."""

    def __init__(self, model: torch.nn.Module, device: torch.device, lr: float) -> None:
        self.model, self.device, self.peak_lr = model.to(device).requires_grad_(True), device, lr
        self.cuda = device.type == "cuda"
        fused = add_norm_silu_pad
        if self.cuda:
            from gc25d_core.vae.train_kernels import add_norm_silu_pad as fused

            for p in model.parameters():
                if p.ndim in (4, 5):
                    p.data = p.data.contiguous(
                        memory_format=torch.channels_last if p.ndim == 4 else torch.channels_last_3d
                    )
        self.whole = WholeClip(model, fused)
        self.params = list(model.parameters())
        self.lr = torch.tensor(lr, device=device)
        self.optimizer = torch.optim.Adam(
            self.params, lr=self.lr if self.cuda else lr, betas=(0.9, 0.99), fused=self.cuda, capturable=self.cuda
        )
        self.ema = [p.detach().clone() for p in self.params]
        self.steps = 0

    def step_function(self, batch: torch.Tensor) -> Callable[[], torch.Tensor]:
        """A function that trains on what `batch` (uint8 [B,T,h,w,3]) holds then, and returns the mean log10 MSE."""

        def step() -> torch.Tensor:
            video = batch.permute(0, 4, 1, 2, 3).float() * (2 / 255) - 1
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.cuda, cache_enabled=False):
                output = self.whole.decode(self.whole.encode(video))
            mse = (output.float() - video).square().mean(dim=(1, 2, 3, 4))
            log_mse = torch.log(mse + MSE_FLOOR)
            log_mse.mean().backward()
            torch.nn.utils.clip_grad_norm_(self.params, 1.0, foreach=True)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)
            torch._foreach_lerp_(self.ema, [p.detach() for p in self.params], 1 - EMA_DECAY)
            return log_mse.detach().mean() / math.log(10)

        if not self.cuda:
            return step
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = step()

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay

    def set_lr(self, share: float) -> None:
        """Warm-up by steps, then a cosine over the share of the time that has passed."""
        lr = (
            self.peak_lr
            * min(1.0, (self.steps + 1) / WARMUP_STEPS)
            * (0.01 + 0.99 * (1 + math.cos(math.pi * min(share, 1))) / 2)
        )
        if self.cuda:
            self.lr.fill_(lr)
        else:
            self.optimizer.param_groups[0]["lr"] = lr

    def averaged(self) -> dict[str, torch.Tensor]:
        """The moving average's state, float32 on the CPU."""
        names = [n for n, _ in self.model.named_parameters()]
        return {n: p.to("cpu", copy=True).contiguous() for n, p in zip(names, self.ema, strict=True)}


def main(argv: list[str] | None = None) -> None:
    a = _arguments(argv)
    start = time.perf_counter()
    a.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(a.device)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(a.seed)
    model = _new_model(a.dim, a.dec_dim)
    if a.resume is not None:
        model.load_state_dict(load_file(str(a.resume)))
    trainer = Trainer(model, device, a.lr)
    with ClipRenderer(workers=a.workers, clips=a.clips) as renderer:
        pool = Pool(a.clips, 81, device)
        pool.add(renderer.wait_for(min(a.clips, 2 * a.workers)))
        print(f"{time.perf_counter() - start:.0f} s: {pool.count} clips", flush=True)
        deadline = start + 60 * a.minutes - a.reserve
        phases = FINE_PHASES if a.fine else PHASES
        if deadline > time.perf_counter():
            _train(trainer, pool, renderer, phases, deadline=deadline, out=a.out, seed=a.seed)
        if a.resume is None or trainer.steps:
            model.load_state_dict(trainer.averaged())
        note = {
            "steps": trainer.steps,
            "clips": pool.count,
            "minutes": a.minutes,
            "lr": a.lr,
            "torch": torch.__version__,
        }
        note["date"] = datetime.date.today().isoformat()
        path = export(model, pool, a.out / "demo_vae.safetensors", dim=a.dim, dec_dim=a.dec_dim, note=note)
        print(f"{time.perf_counter() - start:.0f} s: exported", flush=True)
        report = {"note": note, "held_out": measure(path, renderer, device)}
    (a.out / "train_report.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report["held_out"]), f"total {time.perf_counter() - start:.0f} s", flush=True)


def _train(
    trainer: Trainer,
    pool: Pool,
    renderer: ClipRenderer,
    phases: tuple[Phase, ...],
    *,
    deadline: float,
    out: Path,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    start = last = saved = time.perf_counter()
    for phase in phases:
        batch = torch.empty(
            (phase.batch, phase.frames, phase.height, phase.width, 3), dtype=torch.uint8, device=trainer.device
        )
        pool.crop_into(batch, rng)
        trainer.set_lr((time.perf_counter() - start) / (deadline - start))
        step = trainer.step_function(batch)
        counted = trainer.steps
        while (now := time.perf_counter()) < start + phase.until * (deadline - start):
            pool.crop_into(batch, rng)
            trainer.set_lr((now - start) / (deadline - start))
            log_mse = step()
            trainer.steps += 1
            if trainer.steps % 50 == 0:
                value = float(log_mse)  # waits for the device, so that time and queue stay in step
                if not math.isfinite(value):
                    raise RuntimeError(f"training diverged at step {trainer.steps}; to do: lower --lr")
                pool.add(renderer.ready())
                if time.perf_counter() - last > 10:
                    rate = (trainer.steps - counted) / (time.perf_counter() - last)
                    psnr = 10 * (math.log10(4) - value)
                    print(f"{now - start:.0f} s, step {trainer.steps}, {phase.frames} frames, {rate:.1f} steps/s, "
                          f"batch PSNR {psnr:.1f} dB, {pool.count} clips", flush=True)  # fmt: skip
                    last, counted = time.perf_counter(), trainer.steps
            if now - saved > CHECKPOINT_SECONDS:
                save_file(trainer.averaged(), str(out / "weights.safetensors"))
                saved = now
        del step
    save_file(trainer.averaged(), str(out / "weights.safetensors"))


def export(model: Any, pool: Pool, path: Path, *, dim: int, dec_dim: int, note: dict[str, Any]) -> Path:
    """Folds the latents' mean and scale into the model, and writes it as a demo file."""
    clips = [pool.clips[i].permute(3, 0, 1, 2).float() * (2 / 255) - 1 for i in range(min(pool.count, 24))]
    vae = build_vae(dim, dec_dim)
    mean, scale = latent_statistics(model, clips, vae.mean, vae.std)
    fold_normalisation(model, mean, scale, vae.mean, vae.std)
    save_demo(path, model, dim=dim, dec_dim=dec_dim, note=note)
    return path


def measure(path: Path, renderer: ClipRenderer, device: torch.device) -> dict[str, Any]:
    """PSNR in dB of the shipped file on the held-out clips, through DiffSynth's own streaming encode and decode."""
    vae = load_vae(path, device)
    found: dict[str, list[float]] = {}
    with torch.inference_mode():
        for family, _, clip in renderer.held_out():
            video = torch.from_numpy(clip).permute(3, 0, 1, 2).float() * (2 / 255) - 1
            latent = vae.encode([video], device=device)[0].to(torch.bfloat16)
            output = vae.decode([latent.float()], device=device)[0].cpu()
            per_frame = (output - video).square().mean(dim=(0, 2, 3))
            found.setdefault(family, []).append(10 * math.log10(4 / float(per_frame.mean())))
            found.setdefault(f"{family} frame 0, 40, 80", []).extend(
                (10 * torch.log10(4 / per_frame[[0, 40, 80]])).tolist()
            )
            found.setdefault("latent mean, std", []).extend([float(latent.float().mean()), float(latent.float().std())])
    return {k: [round(v, 2) for v in values] for k, values in found.items()}


def _new_model(dim: int, dec_dim: int) -> Any:
    from diffsynth.models.wan_video_vae import VideoVAE38_

    return VideoVAE38_(dim=dim, dec_dim=dec_dim)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--minutes", type=float, default=9.0, help="the whole run, measuring included")
    p.add_argument("--reserve", type=float, default=45.0, help="seconds kept for export and measuring")
    p.add_argument("--device", default="cuda")
    p.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="rendering processes")
    p.add_argument("--clips", type=int, default=800, help="training clips, 24 MB each on the device")
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--dec-dim", type=int, default=16)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--resume", type=Path, help="weights.safetensors of an earlier run")
    p.add_argument("--fine", action="store_true", help="whole clips only, for continuing a trained model")
    return p.parse_args(argv)


if __name__ == "__main__":
    main()
