"""The acceptance test: what a person does in the UI, through `gc25d up` and the GraphQL API over loopback.

Four synthetic recordings of two clips. The tests of this module run in order on one `gc25d up`; each leaves the data set
finished.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gc25d_core.synth import default_run_names, write_source
from tests.e2e.conftest import Up, alive, clean_environment, until

RUNS = default_run_names(4)
RUN_ASSETS = ("clip_plan", "cond", "cond_ext", "meta", "latents", "run_index")
FOLDERS = ("latents", "cond", "cond_ext", "meta", "index/plan", "index/rows", "index/faults")
FORCE = {"ops": {op: {"config": {"force": True}} for op in ("prepare_conditions", "gc25d__latents")}}
BACKFILL_S = 600.0


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("e2e")
    write_source(folder / "source", runs=4, clips=2, size=(96, 48), seed=0, workers=1)
    up = Up(folder / "source", folder / "ds", folder / "up.log", clean_environment(folder / "seats"))
    try:
        yield up.wait()
    finally:
        up.clean_up()


@pytest.fixture(scope="module")
def backfilled(up: Up) -> Up:
    """The first backfill, over all partitions, has succeeded."""
    backfill(up, RUNS)
    return up


def backfill(up: Up, partitions: list[str]) -> None:
    """A backfill of everything made of a run, as the UI launches it; all its runs succeed."""
    params = {
        "assetSelection": [{"path": ["gc25d", name]} for name in RUN_ASSETS],
        **({"allPartitions": True} if partitions == RUNS else {"partitionNames": partitions}),
    }
    answer = up.query(
        """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) { __typename
        ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }""",
        params=params,
    )
    assert answer["__typename"] == "LaunchBackfillSuccess", answer

    def ended() -> dict[str, str]:
        states = backfill_runs(up, answer["backfillId"])
        done = len(states) == len(partitions) and all(s in ("SUCCESS", "FAILURE", "CANCELED") for s in states.values())
        return states if done else {}

    states = until(ended, BACKFILL_S, f"backfill of {len(partitions)} partitions")
    assert states == dict.fromkeys(partitions, "SUCCESS")


def backfill_runs(up: Up, backfill_id: str) -> dict[str, str]:
    """Status of the backfill's runs by partition."""
    answer = up.query(
        """query($filter: RunsFilter!) { runsOrError(filter: $filter) {
        ... on Runs { results { status tags { key value } } } } }""",
        filter={"tags": [{"key": "dagster/backfill", "value": backfill_id}]},
    )
    tags = [({t["key"]: t["value"] for t in row["tags"]}, row["status"]) for row in answer["results"]]
    return {named["dagster/partition"]: status for named, status in tags}


def files(up: Up) -> dict[str, int]:
    """mtime_ns of every published file of the runs, by path below the data set."""
    found = [p for folder in FOLDERS for p in (up.out / folder).iterdir()]
    return {str(p.relative_to(up.out)): p.stat().st_mtime_ns for p in found}


def last_metadata(up: Up, asset: str, partition: str) -> dict[str, Any]:
    """Metadata of the newest materialization."""
    answer = up.query(
        """query($key: AssetKeyInput!, $partitions: [String!]) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
        assetMaterializations(partitions: $partitions, limit: 1) { metadataEntries { label
        ... on TextMetadataEntry { text } ... on IntMetadataEntry { intValue } } } } } }""",
        key={"path": ["gc25d", asset]},
        partitions=[partition],
    )
    (newest,) = answer["assetMaterializations"]
    return {e["label"]: e.get("text", e.get("intValue")) for e in newest["metadataEntries"]}


def test_all_runs_are_registered_as_partitions_in_order(up: Up) -> None:
    answer = up.query(
        """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { partitionKeys } } }""",
        key={"path": ["gc25d", "latents"]},
    )
    assert answer["partitionKeys"] == sorted(RUNS)


def test_a_backfill_of_all_partitions_makes_every_clip(backfilled: Up) -> None:
    for kind in ("latents", "cond", "meta"):
        assert len(list((backfilled.out / kind).iterdir())) == 8
    for run in RUNS:
        assert last_metadata(backfilled, "latents", run)["made"] == 2


def test_the_checks_of_each_partition_are_green(backfilled: Up) -> None:
    answer = backfilled.query(
        """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
        assetChecksOrError { ... on AssetChecks { checks { name } } } } } }""",
        key={"path": ["gc25d", "run_index"]},
    )
    names = [check["name"] for check in answer["assetChecksOrError"]["checks"]]
    assert {"files", "values", "content_hash", "fingerprint", "source_intact"} <= set(names)
    states = {(name, run): last_check(backfilled, name, run) for name in names for run in RUNS}
    assert states == dict.fromkeys(states, "SUCCEEDED")


def last_check(up: Up, name: str, partition: str) -> str:
    executions = up.query(
        """query($key: AssetKeyInput!, $name: String!, $partition: String) { assetCheckExecutions(
        assetKey: $key, checkName: $name, partition: $partition, limit: 1) { status partition } }""",
        key={"path": ["gc25d", "run_index"]},
        name=name,
        partition=partition,
    )
    assert [e["partition"] for e in executions] == [partition]
    return str(executions[0]["status"])


def test_forcing_one_run_rewrites_its_outputs_and_no_other(backfilled: Up) -> None:
    run, before = RUNS[1], files(backfilled)
    assert backfilled.wait_for_run(backfilled.launch("build_runs", run, FORCE), 300) == "SUCCESS"
    after = files(backfilled)
    changed = {name for name in after if before.get(name) != after[name]}
    assert after.keys() == before.keys()
    assert changed == {name for name in after if f"__{run}__" in name}
    assert last_metadata(backfilled, "cond", run)["made"] == 2


def test_a_second_backfill_does_nothing_and_says_how_much_it_skipped(backfilled: Up) -> None:
    before = files(backfilled)
    backfill(backfilled, RUNS)
    assert files(backfilled) == before
    for run in RUNS:
        for asset in ("cond", "latents"):
            metadata = last_metadata(backfilled, asset, run)
            assert metadata["result"].startswith("skipped 2, made 0")
            assert (metadata["skipped"], metadata["made"]) == (2, 0)


def test_after_one_file_is_deleted_a_backfill_redoes_only_that_clip(backfilled: Up) -> None:
    run, before = RUNS[2], files(backfilled)
    victim = next(name for name in before if name.startswith("cond/") and f"__{run}__" in name)
    clip = Path(victim).stem
    (backfilled.out / victim).unlink()
    backfill(backfilled, [run])
    after = files(backfilled)
    changed = {name for name in before if before[name] != after[name]}
    assert victim in changed
    assert {Path(name).stem for name in changed} == {clip}
    assert not any(name.startswith("latents/") for name in changed)
    metadata = last_metadata(backfilled, "cond", run)
    assert (metadata["skipped"], metadata["made"]) == (1, 1)


def test_the_pool_has_a_schedule_that_is_on(up: Up) -> None:
    answer = up.query(
        """query($selector: RepositorySelector!) { schedulesOrError(repositorySelector: $selector) {
        ... on Schedules { results { name cronSchedule pipelineName scheduleState { status } } } } }""",
        selector={"repositoryLocationName": "gc25d", "repositoryName": "__repository__"},
    )
    (schedule,) = [s for s in answer["results"] if "dmd_pool" in s["name"]]
    assert schedule["scheduleState"]["status"] == "RUNNING"


def test_the_index_follows_by_itself(backfilled: Up) -> None:
    until(lambda: (backfilled.out / "index/clips.jsonl").is_file(), 120, "clips.jsonl")
    until(lambda: len((backfilled.out / "index/clips.jsonl").read_text().splitlines()) == 8, 120, "eight rows")


def test_after_sigterm_nothing_is_alive(backfilled: Up) -> None:
    family = backfilled.family()
    begun = time.monotonic()
    assert backfilled.stop() == 143
    assert time.monotonic() - begun < 20
    assert not alive(family)
