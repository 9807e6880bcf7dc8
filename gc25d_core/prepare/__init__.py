"""The two steps that make outputs: conditions (CPU, one pass over json and ids) and latents (GPU)."""

from gc25d_core.prepare.conditions import prepare_conditions
from gc25d_core.prepare.report import Progress, StepReport

__all__ = ["Progress", "StepReport", "prepare_conditions", "prepare_latents"]


def prepare_latents(*args: object, **kwargs: object) -> StepReport:
    """`gc25d_core.prepare.latents.prepare_latents`, which imports torch only where there is something to encode."""
    from gc25d_core.prepare.latents import prepare_latents as run

    return run(*args, **kwargs)  # type: ignore[arg-type]
