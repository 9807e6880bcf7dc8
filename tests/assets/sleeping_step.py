"""A run worker whose one step says its pid and sleeps. Started by test_process as a program of its own."""

import os
import time
from pathlib import Path

import dagster as dg

from gc25d_assets.process import tie_to_parent

tie_to_parent()


@dg.asset
def sleeper() -> None:
    file = Path(os.environ["STEP_PID_FILE"])
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{os.getpid()}\n")
    fresh.rename(file)
    time.sleep(120)


sleep_job = dg.define_asset_job("sleep_job", selection=[sleeper])
defs = dg.Definitions(assets=[sleeper], jobs=[sleep_job], executor=dg.multiprocess_executor)


def the_job() -> dg.JobDefinition:
    return defs.resolve_job_def("sleep_job")


if __name__ == "__main__":
    with dg.DagsterInstance.get() as instance:
        dg.execute_job(dg.reconstructable(the_job), instance=instance)
