"""Follows Dagster runs to their end: a progress bar on a terminal, a line for each finished run in a pipe."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from gc25d_assets.cli.graphql import GraphQLError, RunState
from gc25d_assets.cli.session import Session

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

_PATIENCE_S = 60.0
_WORDS = {"SUCCESS": "done", "FAILURE": "FAILED", "CANCELED": "cancelled"}


class Board(Protocol):
    """Where progress is shown."""

    def finished(self, run: RunState, number: int, of: int) -> None:
        """One run has ended."""

    def clips(self, conditions: int, latents: int, of: int, running: int) -> None:
        """How many clips of the followed runs have their conditions and latents on disk."""


class _Lines:
    """For a pipe or a log: a line for each finished run, and the clips now and then."""

    def __init__(self, every_s: float = 15.0) -> None:
        self._every_s = every_s
        self._last = time.monotonic()
        self._said: tuple[int, int] = (0, 0)

    def finished(self, run: RunState, number: int, of: int) -> None:
        click.echo(f"[{number}/{of}] {run.partition or 'index and reports'}: {_WORDS[run.status]}")

    def clips(self, conditions: int, latents: int, of: int, running: int) -> None:
        if (conditions, latents) != self._said and time.monotonic() - self._last > self._every_s:
            self._last, self._said = time.monotonic(), (conditions, latents)
            click.echo(f"clips: {conditions} conditions, {latents} latents of {of}; {running} runs at work")


class _Bars:
    """For a terminal: two bars, and the runs that finish above them."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, TextColumn("{task.fields[note]}"))
        self._tasks = {name: self.progress.add_task(name, total=None, note="") for name in ("conditions", "latents")}

    def finished(self, run: RunState, number: int, of: int) -> None:
        name = run.partition or "index and reports"
        self.progress.console.print(f"\\[{number}/{of}] {name}: {_WORDS[run.status]}", highlight=False)

    def clips(self, conditions: int, latents: int, of: int, running: int) -> None:
        note = f"{running} runs at work"
        for name, count in (("conditions", conditions), ("latents", latents)):
            self.progress.update(self._tasks[name], completed=count, total=of or None, note=note)


@contextmanager
def open_board() -> Iterator[Board]:
    """Bars on a terminal, lines elsewhere."""
    import sys

    if not sys.stdout.isatty():
        yield _Lines()
        return
    bars = _Bars()
    with bars.progress:
        yield bars


@dataclass(frozen=True)
class ClipCounter:
    """Counts on disk what the followed runs have published, by listing two folders."""

    settings: Settings
    prefixes: frozenset[str]
    planned: int
    since: float | None = None  # count files written after this time only (seconds; for --force)

    @classmethod
    def of(cls, settings: Settings, runs: Sequence[str], *, since: float | None = None) -> ClipCounter:
        """For these runs; one whose run.json cannot be read counts no clips (its build says why)."""
        from gc25d_core.errors import SourceError
        from gc25d_core.source.run import read_run_json

        prefixes, planned = set(), 0
        for run in runs:
            try:
                info = read_run_json(settings.src / run, run)
            except SourceError:
                continue
            prefixes.add(f"{info.scene_id:02d}_{info.scene_name}__{run}")
            planned += len(info.clip_starts)
        return cls(settings, frozenset(prefixes), planned, since)

    def count(self, kind: str) -> int:
        """Published files of this kind."""
        folder = self.settings.paths.clip(kind, "x").parent
        try:
            with os.scandir(folder) as entries:
                return sum(self._counts(entry) for entry in entries)
        except FileNotFoundError:
            return 0

    def _counts(self, entry: os.DirEntry[str]) -> bool:
        if ".tmp" in entry.name or entry.name.rpartition("__")[0] not in self.prefixes:
            return False
        try:
            return self.since is None or entry.stat().st_mtime >= self.since
        except FileNotFoundError:
            return False  # replaced between listing and looking


def follow(
    session: Session, runs: Sequence[RunState], board: Board, counter: ClipCounter | None = None
) -> list[RunState]:
    """Waits until every run has ended; their last states.

    Raises:
        GraphQLError: the webserver has not answered for a minute.
        ServerDied: a server of our own has died.
    """
    ids = [run.run_id for run in runs]
    shown: set[str] = set()
    heard = time.monotonic()
    while True:
        session.check()
        try:
            states = session.client.runs(ids=ids)
            heard = time.monotonic()
        except GraphQLError:
            if time.monotonic() - heard > _PATIENCE_S:
                raise
            time.sleep(1)
            continue
        for state in states:
            if state.finished and state.run_id not in shown:
                shown.add(state.run_id)
                board.finished(state, len(shown), len(ids))
        if counter is not None:
            running = sum(state.status in ("STARTED", "STARTING") for state in states)
            board.clips(counter.count("meta"), counter.count("latents"), counter.planned, running)
        if len(shown) >= len(ids):
            return states
        time.sleep(1.0 if len(ids) < 64 else 3.0)
