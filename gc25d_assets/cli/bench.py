"""`gc25d bench`: the benchmarks, as a table and as json."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from gc25d_assets.cli.options import given_options, settings_options


@click.group("bench")
def bench_command() -> None:
    """Benchmarks: CPU cost of a clip, encoding, a whole build. Ratios are measured in one run."""


def _show(result: dict[str, Any], json_path: str | None) -> None:
    for name, value in result.items():
        if isinstance(value, dict):
            click.echo(f"{name}")
            for inner, v in value.items():
                click.echo(f"  {inner:<28} {v}")
        else:
            click.echo(f"{name:<30} {value}")
    if json_path is not None:
        Path(json_path).write_text(json.dumps(result, indent=1) + "\n")


_json = click.option("--json", "json_path", metavar="FILE", help="Also write the result here.")


@bench_command.command("source")
@click.argument("folder", metavar="DIR")
@click.option("--runs", default=8, show_default=True)
@click.option("--clips", default=50, show_default=True)
@click.option("--size", default="1280x720", show_default=True, metavar="WxH")
@click.option("--workers", default=1, show_default=True)
def source_command(folder: str, runs: int, clips: int, size: str, workers: int) -> None:
    """Write a source for throughput: overlapping clips, pictures with grain (about 250 KB at 1280x720)."""
    from gc25d_core.bench.dense_source import write_dense_source

    width, height = (int(n) for n in size.lower().split("x"))
    write_dense_source(Path(folder), runs=runs, clips=clips, size=(width, height), workers=workers)


@bench_command.command("cpu")
@click.option("--src", required=True, metavar="DIR", help="A source; `gc25d bench source DIR` writes one.")
@click.option("--size", default="832x480", show_default=True, metavar="WxH")
@click.option("--clips", default=3, show_default=True)
@_json
def cpu_command(src: str, size: str, clips: int, json_path: str | None) -> None:
    """CPU seconds of a clip, step by step, against the bare floor of the same data."""
    from gc25d_core.bench.cpu import bench_cpu
    from gc25d_core.errors import SettingsError

    width, height = (int(n) for n in size.lower().split("x"))
    try:
        result = bench_cpu(Path(src), (width, height), clips=clips)
    except ValueError as error:
        raise SettingsError([str(error)]) from error
    per_clip = result.pop("cpu_seconds_per_clip")
    _show({**result, **{f"{part} (CPU s a clip)": v for part, v in per_clip.items()}}, json_path)


@bench_command.command("encode")
@click.option("--clips", default=3, show_default=True)
@click.option("--size", default="832x480", show_default=True, metavar="WxH")
@click.option(
    "--vae", metavar="PATH", help="A checkpoint. Default: random weights of the real size, made for the occasion."
)
@click.option("--device", default="cuda", show_default=True, metavar="cuda|cpu", help="`cpu` takes minutes a clip.")
@_json
@click.pass_context
def encode_command(
    ctx: click.Context, clips: int, size: str, vae: str | None, device: str, json_path: str | None
) -> None:
    """Encode fast and exact against DiffSynth's own call in the same run, with errors."""
    import torch

    from gc25d_core.vae.exactness import main

    if device == "cuda" and not torch.cuda.is_available():
        raise click.UsageError(
            "torch sees no GPU; with --device cpu the exact encoder alone is measured, minutes a clip"
        )
    if vae is None:
        click.echo("weights: random, of the real size (2.8 GB in a temporary file)")
    more = [*(["--vae", vae] if vae else []), *(["--json", json_path] if json_path else [])]
    ctx.exit(main(["--clips", str(clips), "--size", size, "--device", device, *more]))


@bench_command.command("build")
@settings_options
@_json
@click.pass_context
def build_command(ctx: click.Context, json_path: str | None) -> None:
    """A build of the whole source through Dagster: clips/s and how busy the GPU is between first and last clip."""
    from contextlib import nullcontext

    from gc25d_assets.cli.building import build
    from gc25d_assets.cli.options import open_project
    from gc25d_core.bench.gpu_busy import BusySampler

    project = open_project(given_options(ctx))
    settings = project.settings
    sampler = BusySampler() if settings.device == "cuda" else None
    begun = time.time()
    with sampler or nullcontext():
        failures = build(project, None)
    ended = time.time()
    made = sorted(p.stat().st_mtime for p in (settings.out / "latents").glob("*.pt") if p.stat().st_mtime >= begun)
    if len(made) < 2:
        raise click.ClickException("fewer than two clips were made: give a fresh --out")
    result: dict[str, Any] = {
        "clips": len(made), "precision": settings.precision, "device": settings.device, "seats": settings.seats,
        "size": "x".join(map(str, settings.size)), "seconds_total": round(ended - begun, 1),
        "seconds_to_first_clip": round(made[0] - begun, 1), "seconds_first_to_last_clip": round(made[-1] - made[0], 1),
        "clips_per_s_first_to_last": round((len(made) - 1) / (made[-1] - made[0]), 3), "failures": len(failures),
    }  # fmt: skip
    if sampler is not None:
        busy = sampler.busy(made[0], made[-1])
        result["gpu_busy_first_to_last"] = {f"gpu {g}": round(v, 3) for g, v in busy.items()}
    _show(result, json_path)
    ctx.exit(1 if failures else 0)
