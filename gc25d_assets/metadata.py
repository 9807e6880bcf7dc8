"""Reports of the core as metadata of Dagster events: the sentence first, then counts, rates, seconds."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from gc25d_core.errors import Fault

if TYPE_CHECKING:
    from gc25d_core.index import IndexReport
    from gc25d_core.look_change import LookChangeReport
    from gc25d_core.plan import RunPlan
    from gc25d_core.pool import PoolReport
    from gc25d_core.prepare.report import StepReport
    from gc25d_core.rows import RunIndexReport
    from gc25d_core.verify import CheckResult, VerifyReport

Metadata = dict[str, Any]
MAX_FAULTS = 50
FAULT_FIELDS = ("run", "clip", "frame", "member", "shard", "offset", "got", "expected")


def step_metadata(report: StepReport, kind: str | None = None) -> Metadata:
    """Of one step on one run; `kind` names the output where the step has several."""
    total = report.seconds.get("total", 0.0)
    meta: Metadata = {"result": report.sentence}
    if kind is not None and kind in report.made_by_kind:
        meta["files_made"] = report.made_by_kind[kind]
    meta |= {"planned": report.planned, "made": report.made, "skipped": report.skipped, "failed": report.failed}
    if report.made and total > 0:
        meta["clips_per_second"] = round(report.made / total, 4)
    meta |= {f"seconds_{name.replace(' ', '_')}": round(value, 3) for name, value in report.seconds.items()}
    meta |= {"bytes_written": report.bytes_written, "files_removed": report.removed}
    if report.precision_used is not None:
        meta |= {"precision_used": report.precision_used, "clips_encoded_exactly_after_all": report.fallback_exact}
    meta["fingerprint"] = report.fingerprint
    return meta | faults_metadata(report.faults)


def plan_metadata(plan: RunPlan) -> Metadata:
    """Of the plan of one run."""
    with_ext = [c for c in plan.clips if c.has_ext]
    changes = sum(c.ext_look_change for c in with_ext)
    failed = f", {len(plan.failed)} cannot be made" if plan.failed else ""
    return {
        "result": f"{len(plan.clips)} clip{'s' * (len(plan.clips) != 1)}, {len(with_ext)} with extension, {changes} of them change look{failed}",
        "planned": plan.planned,
        "clips": len(plan.clips),
        "with_extension": len(with_ext),
        "look_changes": changes,
        "failed": len(plan.failed),
        "extension_rule_differs": plan.ext_rule_differs,
        "split": plan.clips[0].split if plan.clips else "",
        "looks": sorted({c.look for c in plan.clips}),
    } | faults_metadata(plan.faults)


def run_index_metadata(report: RunIndexReport) -> Metadata:
    """Of the rows of one run."""
    state = "rewritten" if report.written else "unchanged"
    meta: Metadata = {
        "result": f"{report.rows} of {report.planned} clips finished, {report.faults} with open faults, "
        f"{len(report.missing)} missing ({state})",
        "planned": report.planned,
        "rows": report.rows,
        "accepted_faults": report.accepted,
        "open_faults": report.faults,
        "missing": len(report.missing),
        "rows_hash": report.rows_hash,
    }
    if report.missing:
        meta["missing_clips"] = table({"clip": c, "why": why} for c, why in report.missing[:MAX_FAULTS])
    return meta


def verify_metadata(report: VerifyReport) -> Metadata:
    """Of a verification: every check in a table, failures first, and why READY was not written."""
    checks = sorted(report.checks, key=lambda c: (not c.failed, not c.warned))
    ready = "READY is written" if report.ready else f"READY is not written: {'; '.join(report.not_ready_because)}"
    meta: Metadata = {
        "result": f"{len(report.failures)} failures, {len(report.warnings)} warnings over {report.clips} clips of "
        f"{report.runs_complete} of {report.runs_total} runs; {ready}",
        "passed": report.passed,
        "ready": report.ready,
        "failures": len(report.failures),
        "warnings": len(report.warnings),
        "checks": table(
            {
                "check": c.name,
                "state": _state(c),
                "clips": c.clips_checked,
                "findings": c.findings,
                "message": c.message,
            }
            for c in checks
        ),
        "spot_clips": ", ".join(report.spot_clips),
        "clips_encoded_again": ", ".join(report.vae_clips),
    }
    if report.vae_rule:
        meta["rule_of_comparison"] = table({"clip": clip, "rule": rule} for clip, rule in report.vae_rule.items())
    meta |= {f"seconds_{name}": round(value, 3) for name, value in report.seconds.items()}
    return meta | {"clips_hash": report.clips_hash or "no index"}


def _state(check: CheckResult) -> str:
    if not check.applicable:
        return "not applicable"
    return "failed" if check.failed else "warning" if check.warned else "passed"


def pool_metadata(report: PoolReport) -> Metadata:
    """Of the pool: its size under every policy, so that the decision can be seen from here."""
    chosen = report.policy
    by = f"chosen by {chosen.who} on {chosen.when}" if chosen.who else "the default, nobody has chosen"
    return {
        "result": f"{report.size} clips under policy {chosen.policy} ({by})",
        "policy": chosen.policy,
        "size": report.size,
        **{f"size_{name}": sizes.get("all", 0) for name, sizes in report.sizes.items()},
        "sizes": table({"policy": name, **sizes} for name, sizes in report.sizes.items()),
        "left_out": report.left_out,
        "index_hash": report.index_hash,
    }


def look_change_metadata(report: LookChangeReport) -> Metadata:
    """Of the look change report, with its plot."""
    from gc25d_core.look_change import look_change_plot

    changing = sum(g.clips for g in report.groups if g.look_change)
    clips = sum(g.clips for g in report.groups)
    return {
        "result": f"the look changes at frame 81 in {changing} of {clips} clips with an extension; policy {report.policy}",
        "groups": table(report.table()),
        "plot": picture(look_change_plot(report), "L1 between class histograms of neighbouring frames"),
        "pool_sizes": table({"policy": name, **sizes} for name, sizes in report.pool_sizes.items()),
        "clips_without_extension": report.clips_without_ext,
        "index_hash": report.index_hash,
    }


def index_metadata(report: IndexReport) -> Metadata:
    """Of the clip index; runs that are not in it are named with the reason."""
    families: dict[str, int] = {}
    for totals in report.runs.values():
        if totals.complete:
            families[totals.family] = families.get(totals.family, 0) + totals.rows
    meta: Metadata = {
        "result": report.summary(),
        "runs_complete": report.runs_complete,
        "runs_total": report.runs_total,
        "clips": report.clips,
        "open_faults": report.faults_open,
        "faults": report.faults,
        "written": report.written,
        "clips_by_family": families,
        "clips_hash": report.clips_hash,
    }
    if report.vanished:
        meta["vanished_runs"] = ", ".join(report.vanished)
    if report.incomplete:
        rows = [{"run": run, "why": why} for run, why in sorted(report.incomplete.items())]
        meta["incomplete_runs"] = table(rows)
    return meta


def faults_metadata(faults: Iterable[Fault]) -> Metadata:
    """A table of faults of the source, or nothing where there are none."""
    faults = list(faults)
    if not faults:
        return {}
    rows = [fault_row(f) for f in faults[:MAX_FAULTS]]
    return {"source_faults": len(faults), "source_fault_list": table(rows)}


def fault_row(fault: Fault) -> dict[str, Any]:
    """The fields a person needs to find the place, and what is wrong there."""
    row = {name: getattr(fault, name) for name in FAULT_FIELDS}
    return {"what": fault.what, **row, "to do": fault.fix}


def table(rows: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Rows as table metadata. Every row must have the keys of the first; values a table cannot hold become text."""
    records = [dg.TableRecord({k: _cell(v) for k, v in row.items()}) for row in rows]
    columns = list(records[0].data) if records else []
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "any") for name in columns])
    return dg.MetadataValue.table(records=records, schema=schema)


def picture(png: bytes, alt: str) -> dg.MarkdownMetadataValue:
    """An image that the UI shows."""
    return dg.MetadataValue.md(f"![{alt}](data:image/png;base64,{base64.b64encode(png).decode()})")


def _cell(value: Any) -> str | int | float | bool:
    if value is None:
        return ""
    return value if isinstance(value, str | int | float | bool) else str(value)
