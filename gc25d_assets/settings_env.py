"""Settings from the environment: the one place that reads `GC25D_*`.

Steps are processes of their own. They inherit the environment of the code server, so the environment is how settings
reach them; each process resolves them once. Without a source nothing fails to load: what needs settings says what to
set.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gc25d_core.errors import SettingsError

if TYPE_CHECKING:
    from gc25d_core.settings import Settings


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable: the field of `Settings` it fills, how its text is read, and what it means."""

    name: str
    field: str
    parse: Callable[[str], Any]
    meaning: str


VARIABLES = (
    Variable("GC25D_SRC", "src", _path, "folder that holds the runs (each a folder of tar shards)"),
    Variable("GC25D_OUT", "out", _path, "folder of the data set that is written"),
    Variable("GC25D_VAE", "vae", str, "`demo` (default) or the path of Wan2.2_VAE.pth"),
    Variable("GC25D_DEVICE", "device", str, "`cpu` or `cuda`"),
    Variable("GC25D_PRECISION", "precision", str, "`exact` (default) or `fast`"),
    Variable("GC25D_SIZE", "size", str, "target size WIDTHxHEIGHT, default 832x480"),
    Variable("GC25D_WORKERS", "workers", int, "threads that prepare and decode inside one step"),
    Variable("GC25D_CPU_THREADS", "cpu_threads", int, "torch threads when the VAE runs on the CPU"),
    Variable("GC25D_SEATS", "seats", int, "steps that may sit on one GPU at a time"),
    Variable("GC25D_SPOT_CLIPS", "spot_clips", int, "clips the deeper checks look at"),
    Variable("GC25D_BURIED_PLAYER_FRAC", "buried_player_frac", float, "hidden share that drops a clip"),
)
EXECUTOR = "GC25D_EXECUTOR"
"""`local` (default), `ray` or `k8s`: which executor runs the steps."""
NO_SOURCE = (
    "no {what} is set: set the environment variable {name} ({meaning}) for the process that serves this code location, "
    "or start it with `gc25d up --src DIR --out DIR`"
)


def given_from_env(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the environment says, parsed, by field of `Settings`. Unset and empty variables are left out.

    Raises:
        SettingsError: with every value that cannot be read.
    """
    environ = os.environ if environ is None else environ
    given: dict[str, Any] = {}
    mistakes = []
    for v in VARIABLES:
        text = environ.get(v.name, "").strip()
        if not text:
            continue
        try:
            given[v.field] = v.parse(text)
        except ValueError as e:
            mistakes.append(f"{v.name}={text!r} cannot be read: {e} ({v.meaning})")
    if mistakes:
        raise SettingsError(mistakes)
    return given


def env_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The environment that says `given` (by field of `Settings`): the inverse of `given_from_env`. None is left out."""
    env = {}
    for v in VARIABLES:
        value = given.get(v.field)
        if value is None:
            continue
        env[v.name] = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return env


def settings_from(environ: Mapping[str, str] | None = None) -> Settings:
    """Resolved settings, not cached. Raises SettingsError with every mistake, a missing source or data set among them."""
    from gc25d_core.settings import Settings

    given = given_from_env(environ)
    missing = [
        NO_SOURCE.format(what=what, name=v.name, meaning=v.meaning)
        for v, what in zip(VARIABLES[:2], ("source", "data set"), strict=True)
        if v.field not in given
    ]
    if missing:
        raise SettingsError(missing)
    return Settings.resolve(**given)


@functools.cache
def settings() -> Settings:
    """This process's settings, resolved once. Raises SettingsError (and tries again at the next call)."""
    return settings_from()
