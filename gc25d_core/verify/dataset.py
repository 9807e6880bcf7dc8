"""Checks of the data set as a whole: index, parquet, faults, completeness, pool, and the numbers a person wants to see."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gc25d_core.faults import WHOLE_RUN, read_accepted, read_faults
from gc25d_core.index import index_is_stale
from gc25d_core.outputs.content import bytes_hash, json_hash
from gc25d_core.settings import Settings
from gc25d_core.source import bad_run_folders
from gc25d_core.verify.results import CheckResult, Findings

Lines = list[dict[str, Any]]


def index_checks(settings: Settings, runs: Iterable[str]) -> list[CheckResult]:
    """`clips.jsonl` is the sorted union of the runs' rows; parquet, faults and `runs.json` agree with it.

    Args:
        runs: the runs that the index counts as complete.
    """
    rows = Findings(
        "index_rows", "clips.jsonl holds the rows of every complete run, once, in the order (scene id, run, s)"
    )
    table = Findings("index_parquet", "clips.parquet holds what clips.jsonl holds")
    current = Findings("index_current", "index and runs.json were built from what is on disk now")
    lines = _lines(settings, rows)
    rows.clips = table.clips = len(lines)
    wanted: dict[str, dict[str, Any]] = {}
    for run in runs:
        for line in _read(settings.paths.rows(run), rows):
            wanted[line.get("clip", "")] = line
    for clip in sorted(wanted.keys() - {line.get("clip") for line in lines}):
        rows.add("has a row and is not in the index", run=wanted[clip].get("run"), clip=clip)
    for line in lines:
        clip = line.get("clip", "")
        if clip not in wanted:
            rows.add("is in the index and has no row of a complete run", run=line.get("run"), clip=clip)
        elif line != wanted[clip]:
            differ = sorted(k for k in {*line, *wanted[clip]} if line.get(k) != wanted[clip].get(k))
            rows.add(f"differs from its row in {', '.join(differ)}", run=line.get("run"), clip=clip)
    keys = [_order(line) for line in lines]
    if any(not a < b for a, b in itertools.pairwise(keys)):
        rows.add("clips are not in order, or one stands twice")
    _check_parquet(settings, table, lines)
    if index_is_stale(settings):
        current.add("rows, faults, acceptances or runs have changed since the index was built; materialize clips_index")
    _check_runs_json(settings, current, len(lines))
    return [rows.result(), table.result(), current.result(), _check_fault_list(settings)]


def _order(line: dict[str, Any]) -> tuple[int, str, int]:
    head = str(line.get("scene", "")).split("_", 1)[0]
    return int(head) if head.isdigit() else -1, str(line.get("run", "")), int(line.get("s", -1))


def _read(path: Any, found: Findings) -> Lines:
    try:
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        found.add(f"{path.name} is missing")
        return []
    except ValueError as e:
        found.add(f"{path.name} cannot be read: {e}")
        return []
    return [line for line in lines if isinstance(line, dict)]


def _lines(settings: Settings, found: Findings) -> Lines:
    return _read(settings.paths.clips_jsonl, found)


def _check_parquet(settings: Settings, found: Findings, lines: Lines) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(settings.paths.clips_parquet, page_checksum_verification=True) as file:
            records = file.read().to_pylist()
    except (OSError, pa.ArrowException) as e:
        found.add(f"clips.parquet cannot be read: {e}")
        return
    if len(records) != len(lines):
        found.add(f"{len(records)} records, clips.jsonl has {len(lines)} lines")
    for record, line in zip(records, lines, strict=False):
        same = dict(record)
        same["prompts"] = [[p["block"], p["text"]] for p in record["prompts"]]
        same["outputs"] = {k: v for k, v in record["outputs"].items() if v is not None}
        if same != line:
            differ = sorted(k for k in {*same, *line} if same.get(k) != line.get(k))
            found.add(f"differs from clips.jsonl in {', '.join(differ)}", run=line.get("run"), clip=line.get("clip"))


def _check_runs_json(settings: Settings, found: Findings, clips: int) -> None:
    try:
        runs = json.loads(settings.paths.runs_json.read_bytes())
        own, parquet = runs.pop("hash"), runs["parquet_hash"]
        said = (
            runs["clips"],
            runs["clips_hash"],
            sum(r["rows"] + r["accepted"] for r in runs["runs"].values() if r["complete"]),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError) as e:
        found.add(f"runs.json cannot be read: {type(e).__name__} {e}")
        return
    if own != json_hash(runs):
        found.add("runs.json was changed by hand or is damaged: its hash does not hold")
    table = settings.paths.clips_parquet
    if table.is_file() and bytes_hash(table.read_bytes()) != parquet:
        found.add("clips.parquet is not the file that was written with the index; materialize clips_index")
    data = settings.paths.clips_jsonl.read_bytes() if settings.paths.clips_jsonl.is_file() else b""
    if said != (clips, bytes_hash(data), clips):
        found.add(
            f"runs.json counts {said[0]} and {said[2]} clips with hash {said[1]}, clips.jsonl has {clips}, {bytes_hash(data)}"
        )


def _check_fault_list(settings: Settings) -> CheckResult:
    """`faults.jsonl` against the faults that the steps recorded."""
    found = Findings("fault_list", "faults.jsonl lists what the steps recorded, and what was accepted")
    reasons = {key: a.reason for key, a in read_accepted(settings).items()}
    try:
        listed = {
            json.dumps(json.loads(x), sort_keys=True) for x in settings.paths.faults_jsonl.read_bytes().splitlines()
        }
        runs = json.loads(settings.paths.runs_json.read_bytes())["runs"]
    except (FileNotFoundError, ValueError, KeyError, TypeError) as e:
        found.add(f"cannot be read: {type(e).__name__} {e}")
        return found.result()
    recorded = [f for run in runs for f in read_faults(settings, run)] + bad_run_folders(settings.src)
    wanted = {
        json.dumps({**f.to_json(), "accepted": reasons.get((f.run, f.clip or WHOLE_RUN))}, sort_keys=True): f
        for f in recorded
    }
    for key in sorted(wanted.keys() - listed):
        found.add(f"not listed so: {wanted[key]}", run=wanted[key].run, clip=wanted[key].clip)
    for key in sorted(listed - wanted.keys()):
        found.add(f"listed, and no step recorded it so: {key}")
    return found.result()


def state_checks(settings: Settings) -> list[CheckResult]:
    """Warnings that keep READY away without being failures: runs not finished or vanished, faults nobody accepted."""
    complete = Findings("runs_complete", "every run of the source is complete, none has vanished", "warn")
    faults = Findings("faults_accepted", "every fault of the source is mended or accepted", "warn")
    try:
        runs = json.loads(settings.paths.runs_json.read_bytes())
        for run, why in runs["incomplete"].items():
            complete.add(why, run=run)
        for run in runs["vanished"]:
            complete.add(
                "its files are in the data set and its source is gone; restore it, or remove the run's files", run=run
            )
        complete.figure = {"runs_complete": runs["runs_complete"], "runs_total": runs["runs_total"]}
        if not runs["runs_total"]:
            complete.add("the source has no run")
        listed = [json.loads(line) for line in settings.paths.faults_jsonl.read_bytes().splitlines()]
    except (FileNotFoundError, ValueError, KeyError, TypeError) as e:
        complete.add(f"the index cannot be read ({type(e).__name__} {e}); materialize clips_index")
        return [complete.result(), faults.result(applicable=False)]
    accepted = read_accepted(settings)
    for fault in listed:
        if (fault["run"], fault["clip"] or WHOLE_RUN) not in accepted:
            faults.add(f"{fault['kind']}: {fault['what']}", run=fault["run"], clip=fault["clip"], frame=fault["frame"])
    faults.figure = {"faults": len(listed), "accepted": len(accepted)}
    return [complete.result(), faults.result()]


def pool_check(settings: Settings) -> CheckResult:
    """`dmd_pool.jsonl` against a filter of its own. A pool of an older index is a warning: it is rebuilt beside this check."""
    found = Findings(
        "pool", "has_ext, no drop_reason, split train, by policy; in the order of the index, with its hash"
    )
    path = settings.paths.dmd_pool
    if not path.is_file() or not settings.paths.clips_jsonl.is_file():
        return found.result("not applicable: no pool yet", applicable=False)
    lines, pool = _lines(settings, found), _read(path, found)
    index_hash = bytes_hash(settings.paths.clips_jsonl.read_bytes())
    found.clips = len(pool)
    if pool and any(p.get("index_hash") != index_hash for p in pool):
        found.severity = "warn"
        found.add("made from another index than the one on disk; materialize dmd_pool")
        return found.result()
    policy = "same_look"
    if settings.paths.pool_policy.is_file():
        policy = json.loads(settings.paths.pool_policy.read_bytes()).get("policy", policy)
    train = [x for x in lines if x["has_ext"] and x["drop_reason"] is None and x["split"] == "train"]
    wanted = [
        x | {"index_hash": index_hash}
        for x in train
        if policy == "all" or x["look"] is None or not x["ext_look_change"]
    ]
    extra = [p["clip"] for p in pool if p not in wanted]
    lacking = [w["clip"] for w in wanted if w not in pool]
    for clip in extra:
        found.add(f"in the pool, not by policy {policy} and the index", clip=clip)
    for clip in lacking:
        found.add(f"not in the pool, though policy {policy} and the index want it", clip=clip)
    if not extra and not lacking and pool != wanted:
        found.add("the pool is not in the order of the index")
    found.figure = {"size": len(pool), "policy": policy}
    return found.result()


def counts(settings: Settings) -> CheckResult:
    """Figures for people: extensions, look changes and pool sizes by family, pixels a frame, share of val."""
    found = Findings("counts", "said, not judged", "warn")
    lines = [x for x in _lines(settings, found) if x.get("drop_reason") != "source_error"]
    found.clips = len(lines)
    pool = [x for x in lines if x["has_ext"] and x["drop_reason"] is None and x["split"] == "train"]
    val_runs = sorted({x["run"] for x in lines if x["split"] == "val"})
    found.figure = {
        "clips": _by_family(lines),
        "has_ext": _by_family(x for x in lines if x["has_ext"]),
        "look_changes": _by_family(x for x in lines if x["ext_look_change"]),
        "dropped": dict(Counter(x["drop_reason"] for x in lines if x["drop_reason"])),
        "pool": {"same_look": _by_family(x for x in pool if not x["ext_look_change"]), "all": _by_family(pool)},
        "player_px_a_frame": _mean(x["player_px_mean"] for x in lines),
        "boss_px_a_frame": _mean(x["boss_px_mean"] for x in lines),
        "val_share": sum(x["split"] == "val" for x in lines) / len(lines) if lines else None,
        "val_runs": len(val_runs),
        "has_ext_rule_differs": _rule_differs(settings),
    }
    said = [f"{len(lines)} clips, {found.figure['has_ext']['all']} with extension"]
    if lines and not val_runs:
        said.append("no run is in split val")
    return found.result("; ".join(said), applicable=bool(lines))


def _rule_differs(settings: Settings) -> int | None:
    try:
        return json.loads(settings.paths.runs_json.read_bytes()).get("has_ext_rule_differs")
    except (FileNotFoundError, ValueError):
        return None


def _by_family(lines: Iterable[dict[str, Any]]) -> dict[str, int]:
    n = Counter(x["family"] for x in lines)
    return {"v10": n["v10"], "v9": n["v9"], "all": sum(n.values())}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return math.fsum(known) / len(known) if known else None
