"""The command group. Commands are imported when they are called: `gc25d --help` loads neither Dagster nor torch."""

from __future__ import annotations

import sys
from importlib import import_module

import click

_COMMANDS = {
    "demo": "The whole job on a synthetic source; prints where to look.",
    "synth": "Write a synthetic source.",
    "build": "Materialize the graph for all or some runs; run again to resume.",
    "up": "UI and daemon for one source and data set.",
    "verify": "Verify the data set; write READY if nothing fails.",
    "audit": "The disk against fingerprints and Dagster's records; what to rematerialize.",
    "pool": "Make the filtered pool; choose its policy.",
    "accept": "Accept a fault of the source: its clip stays out.",
    "check-source": "Every deviation of recordings from the documented format.",
    "bench": "Benchmarks, as a table and as JSON.",
}
_MODULES = {name: f"gc25d_assets.cli.{name.replace('-', '_')}" for name in _COMMANDS}


class _Commands(click.Group):
    """Knows names and help lines by itself, and the rest only when a command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_MODULES[cmd_name]), f"{cmd_name.replace('-', '_')}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="gc25d", message="%(prog)s %(version)s")
def gc25d() -> None:
    """Game recordings in, training inputs for a video world model out.

    Everything here is also in the Dagster UI (`gc25d up`). Settings are options or GC25D_* variables. Status lives in
    DAGSTER_HOME where set, else in <out>/.dagster.

    \b
    Exit codes: 0 done, 1 something failed (it says what), 2 settings cannot be used,
    130 / 143 stopped by Ctrl-C / SIGTERM.
    """


def main() -> None:
    """Entry point: expected errors become one message and an exit code, never a traceback."""
    from gc25d_assets.cli.stopping import Stopped, signals_raise

    try:
        with signals_raise():
            gc25d(prog_name="gc25d", standalone_mode=True)
    except Stopped as stop:
        sys.exit(stop.exit_code)
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        click.echo(f"gc25d: {error}", err=True)
        sys.exit(code)


def _exit_code(error: Exception) -> int | None:
    """1 or 2 for what a person can act on; None for a mistake of ours, which keeps its traceback."""
    from gc25d_core.errors import OutputError, SettingsError, SourceError, SystemFault

    if isinstance(error, SettingsError):
        return 2
    if isinstance(error, OutputError | SourceError | SystemFault):
        return 1
    if isinstance(error, OSError) and error.filename is not None:
        return 1  # a folder that cannot be made, a file in the way: the system's own words name it
    from gc25d_assets.cli.graphql import GraphQLError
    from gc25d_assets.cli.home import HomeBusy
    from gc25d_assets.cli.servers import ServerDied

    return 1 if isinstance(error, GraphQLError | HomeBusy | ServerDied) else None


if __name__ == "__main__":
    main()
