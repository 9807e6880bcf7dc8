"""The settings every command shares: options or GC25D_* variables, resolved once, printed, passed on as environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = {
    "--src": ("GC25D_SRC", "DIR", "Folder of the recordings: one folder of tar shards a run."),
    "--out": ("GC25D_OUT", "DIR", "Folder of the data set."),
    "--vae": ("GC25D_VAE", "demo|PATH", "`demo` (packaged, default) or the path of Wan2.2_VAE.pth."),
    "--device": ("GC25D_DEVICE", "cpu|cuda", "Where latents are made. Default: cpu."),
    "--precision": ("GC25D_PRECISION", "exact|fast", "`exact` (default): DiffSynth's bits. `fast`: CUDA only."),
    "--size": ("GC25D_SIZE", "WxH", "Target size, multiples of 16. Default: 832x480."),
    "--workers": ("GC25D_WORKERS", "N", "CPU workers inside one step. Default: all cores."),
}


def settings_options(command: F) -> F:
    """Adds the settings options; the command gets their texts as one mapping, `given`, by GC25D_* name."""
    for flag, (variable, metavar, text) in reversed(_OPTIONS.items()):
        name = variable.lower()
        option = click.option(
            flag, name, metavar=metavar, help=f"{text}  [{variable}]", expose_value=False, callback=_keep
        )
        command = option(command)
    return command


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None and param.name is not None:
        ctx.ensure_object(dict)[param.name.upper()] = value


def given_options(ctx: click.Context) -> dict[str, str]:
    """What was given on the command line, by GC25D_* name."""
    return dict(ctx.ensure_object(dict))


@dataclass(frozen=True)
class Project:
    """Resolved settings, the environment that says the same to Dagster's processes, and the Dagster home."""

    settings: Settings
    env: Mapping[str, str]
    home: Path
    flags: str
    """The options as they were given, for hints that name another command."""


def resolve_settings(given: Mapping[str, str]) -> Settings:
    """Settings from options over environment over what an existing data set was made with.

    Raises:
        SettingsError: with every mistake of all three.
    """
    from gc25d_assets.settings_env import VARIABLES, given_from_env
    from gc25d_core.errors import SettingsError
    from gc25d_core.settings import Settings

    environ = {**os.environ, **given}
    values: dict[str, Any] = {"src": None, "out": None}
    mistakes: list[str] = []
    for variable in VARIABLES:
        try:
            values.update(given_from_env({variable.name: environ.get(variable.name, "")}))
        except SettingsError as error:
            mistakes += error.mistakes
    for name, value in _recorded(values["out"]).items():
        if values.get(name) is None:
            values[name] = value
    try:
        settings = Settings.resolve(**values)
    except SettingsError as error:
        mistakes += error.mistakes
    if mistakes:
        raise SettingsError(mistakes)
    return settings


def _recorded(out: Path | None) -> dict[str, Any]:
    """What an existing data set was made with, of the settings that a command need not repeat; {} for a new one."""
    from gc25d_core.outputs.publish import read_json
    from gc25d_core.paths import Paths

    try:
        recorded = None if out is None else read_json(Paths(Path(out)).prep_args)
        settings = dict(recorded["settings"]) if recorded else {}
        names = ("src", "size", "vae", "precision", "device", "buried_player_frac")
        return {n: tuple(settings[n]) if n == "size" else settings[n] for n in names if n in settings}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # a damaged file is said where the settings are compared, not here


def open_project(given: Mapping[str, str]) -> Project:
    """Settings, shown; a home for them; and both as the environment of this process, as Dagster's processes see them."""
    from gc25d_assets.cli.home import prepare_home
    from gc25d_assets.settings_env import env_of

    settings = show_settings(given)
    fields = {**settings.to_json(), "size": settings.size}
    project = Project(settings, env_of(fields), prepare_home(settings), flags_of(given))
    os.environ.update(project.env)
    os.environ["DAGSTER_HOME"] = str(project.home)
    click.echo(f"home      {project.home}")
    return project


def flags_of(given: Mapping[str, str]) -> str:
    """` --src DIR --out DIR`: what was given as options; what came from the environment is there for the next command too."""
    flags = {variable: flag for flag, (variable, _, _) in _OPTIONS.items()}
    return "".join(f" {flags[name]} {shlex.quote(value)}" for name, value in given.items())


def show_settings(given: Mapping[str, str]) -> Settings:
    """Resolves the settings and prints what came out."""
    settings = resolve_settings(given)
    width, height = settings.size
    click.echo(f"source    {settings.src}")
    click.echo(f"data set  {settings.out}")
    click.echo(
        f"settings  vae {settings.vae}, device {settings.device}, precision {settings.precision}, "
        f"size {width}x{height}, workers {settings.workers}"
    )
    return settings
