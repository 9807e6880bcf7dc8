"""Results of the core's checks as Dagster's: for one partition, for none, or recorded as an event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from gc25d_assets.metadata import MAX_FAULTS, fault_row, table

if TYPE_CHECKING:
    from gc25d_core.settings import Settings
    from gc25d_core.verify.results import CheckResult


@dataclass(frozen=True)
class Outcome:
    """What one check found, without the asset it hangs on."""

    passed: bool
    severity: dg.AssetCheckSeverity
    metadata: dict[str, Any]

    def result(self, asset: dg.AssetKey, name: str) -> dg.AssetCheckResult:
        """For the partition of the present run, or for an asset without partitions."""
        return dg.AssetCheckResult(
            asset_key=asset, check_name=name, passed=self.passed, severity=self.severity, metadata=self.metadata
        )

    def evaluation(self, asset: dg.AssetKey, name: str, partition: str) -> dg.AssetCheckEvaluation:
        """For a partition, from a run that has none."""
        return dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=name,
            passed=self.passed,
            severity=self.severity,
            metadata=self.metadata,
            partition=partition,
        )


NOTHING_TO_LOOK_AT = Outcome(
    True,
    dg.AssetCheckSeverity.ERROR,
    {"result": "not applicable: the index has no clip with files", "not_applicable": True},
)


def outcome(result: CheckResult) -> Outcome:
    """One result of the core: the sentence first, the worst places as a table."""
    meta: dict[str, Any] = {"result": result.message, "asked_for": result.threshold}
    meta |= {"clips_checked": result.clips_checked, "findings": result.findings}
    if not result.applicable:
        meta["not_applicable"] = True
    meta |= {f"figure_{name}": _plain(value) for name, value in result.figure.items() if value is not None}
    if result.worst:
        columns = list(dict.fromkeys(name for row in result.worst for name in row))
        meta["worst"] = table({name: row.get(name) for name in columns} for row in result.worst)
    severity = dg.AssetCheckSeverity.WARN if result.severity == "warn" else dg.AssetCheckSeverity.ERROR
    return Outcome(bool(result.passed), severity, meta)


def outcomes_of(results: Iterable[CheckResult], names: Sequence[str]) -> dict[str, Outcome]:
    """The outcomes of the checks called `names`, in that order. One that was not reported on is a Dagster failure."""
    by_name = {r.name: r for r in results}
    if lost := sorted(set(names) - set(by_name)):
        raise dg.Failure(description=f"the verification did not report on {', '.join(lost)}", allow_retries=False)
    return {name: outcome(by_name[name]) for name in names}


def source_intact(settings: Settings, run: str) -> Outcome:
    """Whether every fault of the source that the steps recorded for a run is mended or accepted."""
    from gc25d_core.faults import fault_key, read_accepted, read_faults

    accepted = read_accepted(settings)
    faults = read_faults(settings, run)
    open_ones = [f for f in faults if fault_key(f) not in accepted]
    clips = len({f.clip for f in open_ones if f.clip is not None})
    meta: dict[str, Any] = {
        "result": "no fault",
        "open_faults": len(open_ones),
        "accepted_faults": len(faults) - len(open_ones),
    }
    if open_ones:
        meta["result"] = f"{len(open_ones)} faults of the source stop {clips} clips; first: {open_ones[0]}"
        meta["faults"] = table(fault_row(f) for f in open_ones[:MAX_FAULTS])
    elif faults:
        meta["result"] = f"{len(faults)} faults, each accepted by a person"
        meta["accepted"] = table(
            {"clip": key[1], "reason": accepted[key].reason, "who": accepted[key].who, "when": accepted[key].when}
            for key in dict.fromkeys(fault_key(f) for f in faults)
        )
    return Outcome(not open_ones, dg.AssetCheckSeverity.ERROR, meta)


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
