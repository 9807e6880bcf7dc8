"""Servers to work with: those of a running `gc25d up`, or our own for as long as they are needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from gc25d_assets.cli.graphql import UNFINISHED, Client, GraphQLError
from gc25d_assets.cli.home import Holder, HomeBusy, hold_home, is_held, wait_for_holder
from gc25d_assets.cli.instance import bury_lost_runs, open_instance, register_runs, set_pool_limit, vanished_runs
from gc25d_assets.cli.options import Project
from gc25d_assets.cli.servers import KEEP_BUFFERS, free_port, running_servers

if TYPE_CHECKING:
    from gc25d_core.settings import Settings

_CANCEL_S = 5.0
_SPEED_ONLY = {"workers", "cpu_threads", "seats", "spot_clips"}


@dataclass(frozen=True)
class Session:
    """A webserver to talk to. `check` raises if servers of our own have died; `own` says whose they are."""

    client: Client
    url: str
    own: bool
    check: Callable[[], None]


@contextmanager
def own_session(project: Project, command: str, *, host: str, port: int) -> Iterator[Session]:
    """Holds the home and runs the servers within the block; whatever still runs at its end is cancelled.

    Args:
        port: of the webserver; 0 for any free one.

    Raises:
        SettingsError: `port` is taken.
        HomeBusy: another process runs servers on this home.
        ServerDied: a server did not come up.
    """
    from gc25d_assets.seats import count_seats

    memory = {name: value for name, value in KEEP_BUFFERS.items() if name not in os.environ}
    env = {**project.env, **(memory if project.settings.device == "cpu" else {})}
    with (
        hold_home(project.home) as lock,
        running_servers(project.home, host=host, port=free_port(host, port), env=env) as servers,
    ):
        lock.announce(Holder(os.getpid(), command, None, project.settings.to_json(), str(servers.folder)))
        instance = open_instance(project.home)
        servers.start_code()
        if lost := bury_lost_runs(instance):
            click.echo(f"{lost} runs of an earlier process that was killed are marked as failed")
        runs = _runs_of(project.settings)
        register_runs(instance, runs)
        if gone := vanished_runs(instance, runs):
            click.echo(f"no longer in the source, though registered: {_some(gone)}")
        set_pool_limit(instance, count_seats(project.settings))
        servers.start_rest()
        client = Client(servers.url)
        if problem := client.location_error():
            raise GraphQLError(f"the code location does not load: {problem}")
        lock.announce(Holder(os.getpid(), command, servers.url, project.settings.to_json(), str(servers.folder)))
        try:
            yield Session(client, servers.url, True, servers.check)
        finally:
            _cancel_all(client)
            servers.stop()
            bury_lost_runs(instance)


@contextmanager
def any_session(project: Project, command: str) -> Iterator[Session]:
    """The servers of a running `gc25d up` on this home, else our own on a free loopback port."""
    holder = wait_for_holder(project.home)
    if holder is None:
        with own_session(project, command, host="127.0.0.1", port=0) as session:
            yield session
        return
    if holder.command != "up":
        raise HomeBusy(project.home, holder)
    _refuse_other_settings(project.settings, holder)
    assert holder.url is not None
    register_runs(open_instance(project.home), _runs_of(project.settings))

    def check() -> None:
        if not is_held(project.home):
            raise GraphQLError("the `gc25d up` that did the work is gone; run this again to resume")

    yield Session(Client(holder.url), holder.url, False, check)


def cancel_runs(client: Client, ids: Sequence[str]) -> None:
    """Cancels runs and waits for their end for a few seconds; then marks them as cancelled."""
    client.terminate(ids)
    deadline = time.monotonic() + _CANCEL_S
    left = list(ids)
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left = [run.run_id for run in client.runs(ids=left) if not run.finished]
    client.terminate(left, at_once=True)


def _cancel_all(client: Client) -> None:
    """Cancels whatever is queued or running; trouble is said and does not keep the servers alive."""
    try:
        client.cancel_backfills()
        if unfinished := client.runs(statuses=UNFINISHED):
            click.echo(f"cancelling {len(unfinished)} runs")
            cancel_runs(client, [run.run_id for run in unfinished])
    except GraphQLError as error:
        click.echo(f"could not cancel every run: {error}", err=True)


def _refuse_other_settings(settings: Settings, holder: Holder) -> None:
    from gc25d_core.errors import SettingsError

    now, there = settings.to_json(), holder.settings
    differ = [key for key in now if key not in _SPEED_ONLY and now[key] != there.get(key)]
    if differ:
        first = f"`gc25d up` (process {holder.pid}) runs on this home with other settings:"
        rows = [f"  {key}: {there.get(key)} there, {now[key]} here" for key in differ]
        raise SettingsError([first, *rows, "give the same settings, or stop it first"])


def _runs_of(settings: Settings) -> list[str]:
    from gc25d_core.source import list_runs

    return list_runs(settings.src)


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
