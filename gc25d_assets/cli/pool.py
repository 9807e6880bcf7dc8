"""`gc25d pool`: the filtered pool, and the decision behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gc25d_assets.cli.options import given_options, settings_options, show_settings

if TYPE_CHECKING:
    from gc25d_core.settings import Settings


@click.command("pool")
@settings_options
@click.option(
    "--policy",
    type=click.Choice(["same_look", "all"]),
    help="What to do with clips whose look changes at frame 81: leave them out (same_look, recommended) or keep them. "
    "Remembered for every later launch. Default: the policy that holds.",
)
@click.pass_context
def pool_command(ctx: click.Context, policy: str | None) -> None:
    """Make the filtered pool from the index; choose its policy.

    The decision is reversible: nothing is encoded anew. Both sizes are printed by family.
    """
    make_pool(show_settings(given_options(ctx)), policy)


def make_pool(settings: Settings, policy: str | None) -> None:
    """Builds the pool and prints what it holds, what it would hold under each policy, and what was left out."""
    from rich.console import Console
    from rich.table import Table

    from gc25d_core.pool import build_pool

    report = build_pool(settings, policy)
    families = list(next(iter(report.sizes.values())))
    table = Table("policy", *families, title="clips in the pool by policy and family")
    for name, sizes in report.sizes.items():
        holds = " (holds)" if name == report.policy.policy else ""
        table.add_row(f"{name}{holds}", *(str(sizes[family]) for family in families))
    Console().print(table)
    chosen = f"chosen by {report.policy.who}, {report.policy.when}" if report.policy.who else "the default"
    click.echo(f"pool      {report.size} clips, policy {report.policy.policy} ({chosen}): {settings.paths.dmd_pool}")
    if report.left_out:
        click.echo("left out  " + ", ".join(f"{count} {why}" for why, count in report.left_out.items()))
