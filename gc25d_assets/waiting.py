"""How a run worker waits for a slot of a pool.

Dagster 1.13's multiprocess executor asks for a pool slot in a loop that never sleeps while none of the run's steps is running: a
worker whose GPU step waits burns a whole core (seen: 87 CPU seconds in 8 minutes on a busy machine), which the steps that have a
slot need. And it asks the database ever more seldom, up to every 15 s, which leaves a free GPU idle. This context sleeps between
two questions and asks at least every 2 s.
"""

from __future__ import annotations

import time

from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.executor import multiprocess

SLEEP_SECONDS = 0.05
ASK_EVERY_SECONDS = 2.0


class PatientClaims(InstanceConcurrencyContext):
    """Dagster's context, waiting without spinning."""

    def claim(self, concurrency_key: str, step_key: str, step_priority: int = 0) -> bool:
        if super().claim(concurrency_key, step_key, step_priority):
            return True
        self._pending_timeouts[step_key] = min(self._pending_timeouts[step_key], time.time() + ASK_EVERY_SECONDS)
        time.sleep(SLEEP_SECONDS)
        return False


def wait_patiently() -> None:
    """Make this process's multiprocess executor use `PatientClaims`. Idempotent."""
    assert issubclass(multiprocess.InstanceConcurrencyContext, InstanceConcurrencyContext)
    multiprocess.InstanceConcurrencyContext = PatientClaims  # type: ignore[misc]
