"""`gc25d check-source`: every deviation of a source from the documented format, before anything is built."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

T = TypeVar("T")

if TYPE_CHECKING:
    from gc25d_core.errors import Fault

_MOST_LINES = 50


@click.command("check-source")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--runs", metavar="A,B", help="Only these runs. Default: all.")
@click.option(
    "--clips-per-run", metavar="N", type=click.IntRange(min=0), help="Decode the pictures of N clips a run only."
)
@click.option("--size", metavar="WxH", help="Target size that must fit. Default: 832x480, or the nearest that fits.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes. Default: all cores.")
@click.pass_context
def check_source_command(
    ctx: click.Context, folder: Path, runs: str | None, clips_per_run: int | None, size: str | None, workers: int | None
) -> None:
    """Say every deviation of the recordings in DIR from the documented format, each with a fix.

    Reads all json and blocks, and the pictures of every clip (with --clips-per-run N, a quick scan: of N clips spread over
    each run). Writes nothing. Exit code 1 if something deviates.
    """
    from gc25d_core.errors import SettingsError
    from gc25d_core.source import bad_run_folders, list_runs
    from gc25d_core.verify.jobs import run_jobs

    target = None
    if size is not None:
        try:
            width, height = (int(n) for n in size.lower().split("x"))
            target = width, height
        except ValueError as error:
            raise SettingsError([f"size {size!r}: expected WxH in pixels, for example 832x480"]) from error
    known = list_runs(folder)
    names = known if runs is None else [n.strip() for n in runs.split(",") if n.strip()]
    if unknown := sorted(set(names) - set(known)):
        raise SettingsError([f"run {name}: the source has no such run" for name in unknown])
    jobs = [(check_run, (folder, name, target, clips_per_run)) for name in names]
    faults = [] if runs is not None else list(bad_run_folders(folder))
    clips = 0
    for position, (looked_at, found) in run_jobs(jobs, workers or len(os.sched_getaffinity(0))):
        clips += looked_at
        faults += found
        click.echo(f"{names[position]}: {len(found)} deviations, pictures of {looked_at} clips decoded", err=True)
    _print(list(dict.fromkeys(faults)), len(names), clips)
    ctx.exit(1 if faults or not names else 0)


def check_run(
    src: Path, run: str, target: tuple[int, int] | None, clips_per_run: int | None
) -> tuple[int, list[Fault]]:
    """Clips whose pictures were decoded, and all deviations of one run. Without a target, the default or the nearest fits."""
    from gc25d_core.errors import Fault, SourceError
    from gc25d_core.geometry import Geometry
    from gc25d_core.plan import plan_source
    from gc25d_core.prepare.conditions import make_conditions
    from gc25d_core.prepare.latents import clip_rgb
    from gc25d_core.source import open_run

    try:
        source = open_run(src, run, cache=None)
    except SourceError as error:
        return 0, list(error.faults)
    try:
        size = target or fitting_target(source.info.image_size)
        plan = plan_source(source, size)
        faults = list(plan.faults)
        chosen = spread(plan.clips, clips_per_run)
        for clip in chosen:
            for decode in (make_conditions, clip_rgb):
                try:
                    decode(source, clip, Geometry.fit(source.info.image_size, size))
                except SourceError as error:
                    faults += [Fault.from_json({**fault.to_json(), "clip": clip.clip}) for fault in error.faults]
        return len(chosen), faults
    finally:
        source.close()


def fitting_target(image_size: tuple[int, int]) -> tuple[int, int]:
    """The default target where it fits pictures of this size, else the nearest that does, else the default."""
    from gc25d_core.geometry import Geometry, nearest_targets
    from gc25d_core.settings import DEFAULT_SIZE

    try:
        return Geometry.fit(image_size, DEFAULT_SIZE).target
    except ValueError:
        return next(iter(nearest_targets(image_size, DEFAULT_SIZE)), DEFAULT_SIZE)


def spread(items: Sequence[T], count: int | None) -> list[T]:
    """`count` of the items, evenly spread, the first among them; all for None."""
    if count is None or count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def _print(faults: Sequence[Fault], runs: int, clips: int) -> None:
    for kind, count in Counter(fault.kind for fault in faults).most_common():
        click.echo(f"{kind:24}{count}")
    for fault in faults[:_MOST_LINES]:
        click.echo(f"  {fault}")
    if len(faults) > _MOST_LINES:
        click.echo(f"  ... and {len(faults) - _MOST_LINES} more")
    click.echo(f"{runs} runs, pictures of {clips} clips: {len(faults)} deviations")
