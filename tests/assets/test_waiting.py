"""A run worker that waits for a pool slot leaves the processor to those that have one, and asks often."""

import time

import dagster as dg
from dagster._core.executor import multiprocess

from gc25d_assets.executors import choose_executor
from gc25d_assets.waiting import ASK_EVERY_SECONDS, PatientClaims


def taken_pool(instance):
    instance.event_log_storage.set_concurrency_slots("gpu", 1)
    instance.event_log_storage.claim_concurrency_slot("gpu", "another-run", "its-step")


def test_the_local_executor_waits_patiently():
    choose_executor({})
    assert multiprocess.InstanceConcurrencyContext is PatientClaims


def test_waiting_costs_little_processor_time_and_a_free_slot_is_noticed_soon(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        taken_pool(instance)
        run = instance.create_run_for_job(dg.job(name="j")(lambda: None))
        with PatientClaims(instance, run) as claims:
            begun, cpu = time.monotonic(), time.process_time()
            while time.monotonic() - begun < 6.0:  # past the point where Dagster's own interval exceeds ours
                assert not claims.claim("gpu", "my-step")
            assert time.process_time() - cpu < 1.5, "a spinning loop takes 6"
            instance.event_log_storage.free_concurrency_slots_for_run("another-run")
            freed = time.monotonic()
            while not claims.claim("gpu", "my-step"):
                assert time.monotonic() - freed < ASK_EVERY_SECONDS + 2
