"""`gc25d demo`: the whole job on a synthetic source, end to end, on any machine."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

_RUNS, _CLIPS, _SOURCE_SIZE, _TARGET = 4, 2, (640, 360), "416x240"


@click.command("demo")
@click.option("--out", default="gc25d-demo", show_default=True, metavar="DIR", help="Folder of source and data set.")
@click.pass_context
def demo_command(ctx: click.Context, out: str) -> None:
    """The whole job on a synthetic source; prints where to look.

    Draws recordings (4 runs of 2 clips, 640x360), builds latents, conditions, capsule metadata and the index through
    Dagster, verifies, and makes the pool. Takes minutes on two cores; run again, it resumes.
    """
    from gc25d_assets.cli.building import build
    from gc25d_assets.cli.options import open_project
    from gc25d_assets.cli.pool import make_pool
    from gc25d_assets.cli.stopping import Stopped
    from gc25d_assets.cli.verify import print_report
    from gc25d_core.outputs.publish import read_json

    started = time.monotonic()
    folder = Path(out).absolute()
    try:
        _source(folder / "source")
        given = {
            "GC25D_SRC": str(folder / "source"),
            "GC25D_OUT": str(folder / "dataset"),
            "GC25D_VAE": "demo",
            "GC25D_DEVICE": _device(),
            "GC25D_SIZE": _TARGET,
            "GC25D_PRECISION": "exact",
        }
        project = open_project(given)
        failures = build(project, None)
        print_report(project.settings, read_json(project.settings.paths.verify_report))
        make_pool(project.settings, None)
    except Stopped:
        click.echo(f"stopped; every finished clip stays. To resume: gc25d demo --out {out}")
        raise
    _show(project.settings, project.flags, time.monotonic() - started)
    ctx.exit(1 if failures else 0)


def _source(folder: Path) -> None:
    """Draws the source unless it is there; the folder appears only when it is whole."""
    from gc25d_core.synth import write_source

    if folder.is_dir():
        return
    click.echo(f"drawing {_RUNS} runs of {_CLIPS} clips into {folder}")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    write_source(unfinished, runs=_RUNS, clips=_CLIPS, size=_SOURCE_SIZE, seed=0)
    os.replace(unfinished, folder)


def _device() -> str:
    """`cuda` where there is a GPU and a torch that can use it."""
    from gc25d_assets.devices import visible_devices

    if not visible_devices():
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _show(settings: Settings, flags: str, seconds: float) -> None:
    """Where to look, and what to do next."""
    paths = settings.paths
    clips = sum(1 for _ in paths.clips_jsonl.open()) if paths.clips_jsonl.is_file() else 0
    click.echo(f"\nThe demo took {seconds:.0f} s for {clips} clips. Where to look:")
    for path, what in (
        (paths.clip("latents", "x").parent, "latents, 48 x 21 x 15 x 26, bf16, with actions"),
        (paths.clip("cond", "x").parent, "condition maps with body parts; cond_ext/ for the extension"),
        (paths.clip("meta", "x").parent, "capsules, cameras, pixel counts"),
        (paths.clips_jsonl, "one row a clip; clips.parquet beside it"),
        (paths.verify_report, "what was verified, figure by figure"),
        (paths.look_change, "the numbers behind the policy of the pool"),
        (paths.dmd_pool, "the pool"),
    ):
        click.echo(f"  {path}  ({what})")
    click.echo(f"The same in the UI, with every asset check:\n  gc25d up{flags}")
