"""What a check says: one `CheckResult` a check, the same for the report, the command line and the asset checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Severity = Literal["error", "warn"]
MOST_SHOWN = 20
"""Findings that a result lists; all of them are counted."""


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check over some clips."""

    name: str
    passed: bool
    severity: Severity
    """Of a check that does not pass: an `error` fails the verification, a `warn` is only said."""
    applicable: bool
    """False where there was nothing to look at; such a check passes."""
    figure: dict[str, Any]
    """What was measured."""
    threshold: str
    """What was asked for, in words."""
    clips_checked: int
    findings: int
    """How often what was asked for did not hold."""
    worst: list[dict[str, Any]]
    """The first `MOST_SHOWN` findings: run, clip, frame (where they apply) and `what`."""
    message: str

    @property
    def failed(self) -> bool:
        """Whether this result fails a verification."""
        return not self.passed and self.severity == "error"

    @property
    def warned(self) -> bool:
        return not self.passed and self.severity == "warn"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Findings:
    """Collects what one check finds; `result` closes it."""

    name: str
    threshold: str
    severity: Severity = "error"
    clips: int = 0
    """Clips looked at."""
    figure: dict[str, Any] = field(default_factory=dict)
    found: list[dict[str, Any]] = field(default_factory=list)

    def add(self, what: str, *, run: str | None = None, clip: str | None = None, frame: int | None = None) -> None:
        """Note a deviation."""
        where = {"run": run, "clip": clip, "frame": frame}
        self.found.append({k: v for k, v in where.items() if v is not None} | {"what": what})

    def result(self, message: str | None = None, *, applicable: bool = True) -> CheckResult:
        """The outcome; without `message` it says how many findings there are and shows the first."""
        return CheckResult(
            self.name, not self.found, self.severity, applicable, dict(self.figure), self.threshold, self.clips,
            len(self.found), self.found[:MOST_SHOWN], message or _message(self.found, self.clips, applicable),
        )  # fmt: skip


def _message(found: list[dict[str, Any]], clips: int, applicable: bool) -> str:
    if not applicable:
        return "not applicable: nothing to look at"
    if not found:
        return f"{clips} clips, nothing found" if clips else "nothing found"
    first = found[0]
    where = " ".join(f"{k} {first[k]}" for k in ("run", "clip", "frame") if k in first)
    return f"{len(found)} findings, first: {where + ': ' if where else ''}{first['what']}"


def merge(results: Iterable[CheckResult]) -> list[CheckResult]:
    """One result for each name, in order of first appearance: findings and clips added up, figures by `merge_figures`."""
    by_name: dict[str, list[CheckResult]] = {}
    for r in results:
        by_name.setdefault(r.name, []).append(r)
    return [_merged(group) for group in by_name.values()]


def _merged(group: list[CheckResult]) -> CheckResult:
    if len(group) == 1:
        return group[0]
    used = [r for r in group if r.applicable]
    bad = [r for r in group if not r.passed]
    findings = sum(r.findings for r in group)
    clips = sum(r.clips_checked for r in group)
    worst = [w for r in group for w in r.worst]
    message = _message(worst, clips, bool(used)) if not bad else f"{findings} findings, first: {bad[0].message}"
    return replace(
        group[0], passed=not bad, applicable=bool(used), figure=merge_figures([r.figure for r in used]), clips_checked=clips,
        findings=findings, worst=worst[:MOST_SHOWN], message=message,
        severity="error" if any(r.failed for r in group) else group[0].severity,
    )  # fmt: skip


def merge_figures(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of several results as one: counts are added, `*_min` and `*_max` keep the extreme, lists are joined, dicts of
    the clips are united; of anything else the first is kept."""
    out: dict[str, Any] = {}
    for figure in figures:
        for key, value in figure.items():
            have = out.get(key)
            if have is None:
                out[key] = value
            elif value is None:
                continue
            elif isinstance(value, dict):
                out[key] = have | value
            elif isinstance(value, list):
                out[key] = have + value
            elif key.endswith("_min"):
                out[key] = min(have, value)
            elif key.endswith("_max"):
                out[key] = max(have, value)
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                out[key] = have + value
    return out
