"""A small data set, built through Dagster from the source to the pool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from gc25d_assets import settings_env
from gc25d_assets.assets.dataset import Policy, PoolConfig
from gc25d_assets.definitions import defs
from gc25d_assets.jobs import INDEX_KEYS, REPORT_KEY, RUN_KEYS
from gc25d_assets.partitions import key
from gc25d_core.faults import accept_fault
from gc25d_core.synth.numbered import write_numbered_run

GOOD, BAD = "R1_s7", "P2_golden_s8"
BAD_CLIP, BAD_FRAME = f"02_shore__{BAD}__000032", 112


class Built:
    """A data set, its instance, and the results of building its two runs."""

    def __init__(self, out: Path, instance: dg.DagsterInstance) -> None:
        self.out, self.instance = out, instance
        self.results: dict[str, dg.ExecuteInProcessResult] = {}

    def run(self, keys: Any, partition: str | None = None, config: Any = None) -> dg.ExecuteInProcessResult:
        return defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance, asset_selection=list(keys), partition_key=partition, run_config=config,
            raise_on_error=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """One good run, and one whose second clip has a cut picture in the source."""
    root = tmp_path_factory.mktemp("built")
    write_numbered_run(root / "src", GOOD, n_frames=112, clip_starts=[0], family="v10")
    write_numbered_run(
        root / "src", BAD, n_frames=116, clip_starts=[0, 32], scene=(2, "shore"),
        member_hook=lambda frame, kind, data: data[:200] if (frame, kind) == (BAD_FRAME, "jpg") else data,
    )  # fmt: skip
    with dg.DagsterInstance.ephemeral() as instance, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GC25D_SEATS_DIR", str(root / "seats"))
        for name, value in environment(root).items():
            patch.setenv(name, value)
        settings_env.settings.cache_clear()
        instance.add_dynamic_partitions("runs", [BAD, GOOD])
        data = Built(root / "out", instance)
        for run in (GOOD, BAD):
            data.results[run] = data.run(RUN_KEYS, run)
        yield data


def environment(root: Path) -> dict[str, str]:
    return {
        "GC25D_SRC": str(root / "src"), "GC25D_OUT": str(root / "out"), "GC25D_SIZE": "64x32", "GC25D_DEVICE": "cpu",
        "GC25D_WORKERS": "1", "GC25D_CPU_THREADS": "1", "GC25D_SPOT_CLIPS": "1",
    }  # fmt: skip


@pytest.fixture(autouse=True)
def same_environment(built: Built, clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(built.out.parent).items():
        monkeypatch.setenv(name, value)
    settings_env.settings.cache_clear()
    # Numbered frames are code, not pictures: no VAE that was trained on scenes draws them well.
    monkeypatch.setattr(import_module("gc25d_core.verify.spot_vae"), "PSNR_FAIL_DB", -100.0)


def metadata(result: dg.ExecuteInProcessResult, name: str) -> dict[str, Any]:
    for event in result.get_asset_materialization_events():
        if event.asset_key == key(name):
            return {k: v.value for k, v in event.materialization.metadata.items()}
    raise AssertionError(f"{name} was not materialized")


def evaluations(result: dg.ExecuteInProcessResult) -> list[Any]:
    return [e.asset_check_evaluation_data for e in result.all_events if e.event_type_value == "ASSET_CHECK_EVALUATION"]


def rows(table: dg.TableMetadataValue) -> list[dict[str, Any]]:
    return [dict(record.data) for record in table.records]


def test_every_asset_of_a_run_is_materialized_with_its_checks_in_one_run(built: Built) -> None:
    result = built.results[GOOD]
    assert result.success
    materialized = result.get_asset_materialization_events()
    assert {e.asset_key for e in materialized} == set(RUN_KEYS)
    assert {e.partition for e in materialized} == {GOOD}
    checks = evaluations(result)
    assert len(checks) == 11
    assert all(c.passed and c.partition == GOOD for c in checks), [(c.check_name, c.metadata) for c in checks]


def test_the_sentence_comes_first_in_the_metadata(built: Built) -> None:
    found = metadata(built.results[GOOD], "latents")
    assert next(iter(found)) == "result"
    assert found["result"] == "skipped 0, made 1"
    assert found["bytes_written"] > 0 and found["seconds_total"] > 0 and len(found["fingerprint"]) == 32
    assert found["seat"] == "CPU, seat 0"
    picture = metadata(built.results[GOOD], "cond")["picture"]
    assert "data:image/jpeg;base64," in picture and len(picture) < 150_000


def test_a_second_run_is_a_no_op_that_says_how_to_redo(built: Built) -> None:
    result = built.run(RUN_KEYS, GOOD)
    assert result.success
    for name in ("cond", "latents"):
        said = metadata(result, name)["result"]
        assert said.startswith("skipped 1, made 0") and "force" in said
    again = {
        e.asset_key: e.materialization.tags["dagster/data_version"] for e in result.get_asset_materialization_events()
    }
    before = built.results[GOOD].get_asset_materialization_events()
    assert again == {e.asset_key: e.materialization.tags["dagster/data_version"] for e in before}, (
        "nothing is stale now"
    )


def test_force_redoes_all(built: Built) -> None:
    config = {"ops": {"prepare_conditions": {"config": {"force": True}}}}
    result = built.run([key("cond"), key("cond_ext"), key("meta")], GOOD, config)
    assert metadata(result, "cond")["result"] == "skipped 0, made 1"


def test_a_fault_of_the_source_stops_neither_the_step_nor_the_good_clips(built: Built) -> None:
    result = built.results[BAD]
    assert result.success
    found = metadata(result, "latents")
    assert found["result"] == "skipped 0, made 1, failed 1"
    assert metadata(result, "run_index")["open_faults"] == 1
    failed = [c for c in evaluations(result) if not c.passed]
    assert [(c.check_name, c.severity.value, c.blocking, c.partition) for c in failed] == [
        ("source_intact", "ERROR", False, BAD)
    ]
    (fault,) = rows(failed[0].metadata["faults"].value)
    assert (fault["run"], fault["clip"], fault["frame"], fault["member"]) == (BAD, BAD_CLIP, BAD_FRAME, "000112.jpg")
    assert fault["shard"].startswith("shard-") and fault["offset"] > 0 and fault["got"] and fault["expected"]


@pytest.mark.parametrize("name", ["clip_plan", "latents", "run_index"])
def test_an_unknown_run_fails_with_its_name_and_the_known_ones(built: Built, name: str) -> None:
    built.instance.add_dynamic_partitions("runs", ["R9_typo"])
    try:
        result = built.run([key(name)], "R9_typo")
    finally:
        built.instance.delete_dynamic_partition("runs", "R9_typo")
    assert not result.success
    failure = next(e for e in result.all_events if e.event_type_value == "STEP_FAILURE").step_failure_data
    assert failure.user_failure_data is not None
    description = str(failure.user_failure_data.description)
    assert all(word in description for word in ("R9_typo", GOOD, BAD))


def test_changed_settings_are_refused_before_anything_is_made(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (built.out / "prep_args.json").is_file()
    monkeypatch.setenv("GC25D_SIZE", "48x32")
    settings_env.settings.cache_clear()
    result = built.run([key("clip_plan")], GOOD)
    failure = next(e for e in result.all_events if e.event_type_value == "STEP_FAILURE").step_failure_data
    assert "size" in str(failure.user_failure_data.description)  # type: ignore[union-attr]


def test_checks_without_a_partition_are_recorded_for_each_run(built: Built) -> None:
    """What the UI's "Execute all" launches on a partitioned asset."""
    result = defs.resolve_job_def("checks").execute_in_process(instance=built.instance)
    seen = {(c.partition, c.check_name, c.passed) for c in evaluations(result)}
    assert len(seen) == 22
    assert [s for s in seen if not s[2]] == [(BAD, "source_intact", False)]


def test_checks_of_one_run_and_of_one_name(built: Built) -> None:
    result = defs.resolve_job_def("checks").execute_in_process(
        instance=built.instance, tags={"dagster/partition": GOOD}
    )
    assert {c.partition for c in evaluations(result)} == {GOOD}
    check = dg.AssetCheckKey(key("run_index"), "content_hash")
    job = dg.define_asset_job("one", selection=dg.AssetSelection.checks(check))
    one = dg.Definitions(assets=defs.assets, asset_checks=defs.asset_checks, jobs=[job]).resolve_job_def("one")
    result = one.execute_in_process(instance=built.instance, tags={"dagster/partition": GOOD})
    assert [c.check_name for c in evaluations(result)] == ["content_hash"]


def test_index_reports_and_pool(built: Built) -> None:
    result = built.run([*INDEX_KEYS, REPORT_KEY])
    assert result.success
    index = metadata(result, "clips_index")
    assert index["result"] == "2 clips of 2 of 2 runs, 1 open faults"
    assert "data:image/png;base64," in metadata(result, "look_change_report")["plot"]
    pool = metadata(result, "dmd_pool")
    assert pool["policy"] == "same_look" and {"size_same_look", "size_all", "sizes"} <= set(pool)
    report = metadata(result, "verify_report")
    assert report["failures"] == 0 and not report["ready"] and "faults" in report["result"]
    failed = {c.check_name: c.metadata["result"].value for c in evaluations(result) if not c.passed}
    assert set(failed) <= {"spot_psnr_usual"}, failed


def test_an_accepted_fault_passes_and_lets_the_verification_write_ready(built: Built) -> None:
    settings = settings_env.settings()
    accept_fault(settings, BAD, BAD_CLIP, reason="the camera failed", who="a person")
    result = built.run([key("run_index")], BAD)
    intact = next(c for c in evaluations(result) if c.check_name == "source_intact")
    assert intact.passed
    assert rows(intact.metadata["accepted"].value)[0]["reason"] == "the camera failed"
    result = built.run([*INDEX_KEYS, REPORT_KEY])
    assert metadata(result, "verify_report")["ready"]
    assert settings.paths.ready.is_file()


def test_a_chosen_policy_holds_for_later_launches(built: Built) -> None:
    config = dg.RunConfig({"gc25d__dmd_pool": PoolConfig(policy=Policy.all)})
    chosen = built.run([key("dmd_pool")], config=config)
    assert metadata(chosen, "dmd_pool")["policy"] == "all"
    later = metadata(built.run([key("dmd_pool")]), "dmd_pool")
    assert later["policy"] == "all" and "Dagster run" in later["result"]
    assert json.loads((built.out / "pool_policy.json").read_text())["policy"] == "all"
    back = {"ops": {"gc25d__dmd_pool": {"config": {"policy": "same_look"}}}}
    assert metadata(built.run([key("dmd_pool")], config=back), "dmd_pool")["policy"] == "same_look"
