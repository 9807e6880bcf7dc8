"""`gc25d synth`: a synthetic source in the documented format."""

from __future__ import annotations

import shlex
from pathlib import Path

import click


@click.command("synth")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--runs", default=4, show_default=True, type=click.IntRange(min=1), help="Number of runs.")
@click.option("--clips", default=2, show_default=True, type=click.IntRange(min=1), help="Clips a run.")
@click.option("--size", default="640x360", show_default=True, metavar="WxH", help="Size of the pictures.")
@click.option("--seed", default=0, show_default=True, help="Decides everything but the names of the runs.")
def synth_command(folder: Path, runs: int, clips: int, size: str, seed: int) -> None:
    """Write a synthetic source into DIR.

    Animated scenes of both families with bodies of capsules, in the format of real recordings: look changes, dead and
    hidden players, missing extensions, shuffled members, seven-digit frames. Nothing is written if one of the runs is
    there already.
    """
    from gc25d_core.errors import SettingsError
    from gc25d_core.synth import write_source

    try:
        width, height = (int(n) for n in size.lower().split("x"))
        plans = write_source(folder, runs=runs, clips=clips, size=(width, height), seed=seed)
    except (ValueError, FileExistsError) as error:
        hint = "" if isinstance(error, FileExistsError) else " (--size is WIDTHxHEIGHT in pixels, for example 640x360)"
        raise SettingsError([f"{error}{hint}"]) from error
    for plan in plans:
        click.echo(
            f"{plan.run}: family {plan.family}, scene {plan.scene[0]:02d}_{plan.scene[1]}, {len(plan.clips)} clips"
        )
    click.echo(f"wrote {len(plans)} runs to {folder}")
    fits = _target(width, height)
    if fits is not None:
        click.echo(f"to build it: gc25d build --src {shlex.quote(str(folder))} --out DIR --size {fits}")


def _target(width: int, height: int) -> str | None:
    """Two thirds of the size in multiples of 16 where that fits (832x480 for 1280x720), else the nearest that fits."""
    from gc25d_core.geometry import nearest_targets

    near = nearest_targets((width, height), (width * 2 // 3 // 16 * 16, height * 2 // 3 // 16 * 16), 1)
    return f"{near[0][0]}x{near[0][1]}" if near else None
