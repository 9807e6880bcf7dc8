"""The numbers behind the decision on `ext_look_change`: what the picture does between frames s+80 and s+81.

For each family, and apart for clips whose look changes there and clips whose look does not: the L1 distance between the
static-class histograms (normalised to sum 1) of neighbouring frames at that step against all other steps of the clip. A
decision from labels alone would trust the recording's `look` field; this shows whether the world in the picture changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gc25d_core.clip_stats import class_histogram_step
from gc25d_core.errors import OutputError
from gc25d_core.frames import CLIP_FRAMES, FULL_FRAMES
from gc25d_core.index import read_index
from gc25d_core.outputs.files import read_meta
from gc25d_core.outputs.publish import publish_bytes, publish_json, sync_folder
from gc25d_core.pool import pool_sizes, read_policy
from gc25d_core.settings import Settings

LOOK_STEP = CLIP_FRAMES - 1
"""Index of the step from frame s+80 to s+81 among the 108 steps of a clip with its extension."""
STEPS = FULL_FRAMES - 1


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """One group of clips: one family, and look changes or does not. L1 is 0..2; null where no clip has a value."""

    family: str
    look_change: bool
    clips: int
    step_median: float | None
    """L1 at 80->81."""
    step_p90: float | None
    step_max: float | None
    other_median: float | None
    """Median L1 over all other steps of all clips of the group."""
    largest_is_step: int
    """Clips whose largest step is 80->81."""
    static_change_step: float | None
    """Median share of the pixels static in both frames that change class at 80->81."""
    static_change_other: float | None
    """The same over all other steps."""
    curve_median: list[float | None]
    """Median over the clips at each of the 108 steps."""
    curve_p10: list[float | None]
    curve_p90: list[float | None]


@dataclass(frozen=True, slots=True)
class LookChangeReport:
    """What `look_change.json` holds."""

    groups: tuple[StepNumbers, ...]
    index_hash: str
    policy: str
    pool_sizes: dict[str, dict[str, int]]
    clips_without_ext: int
    """Clips that this decision is not about."""

    def table(self) -> list[dict[str, Any]]:
        """One row a group, for a table: curves left out, the ways of writing fixed."""
        rows = []
        for g in self.groups:
            rows.append(
                {
                    "family": g.family,
                    "look": "changes" if g.look_change else "stays",
                    "clips": g.clips,
                    "L1 80->81 median": _shown(g.step_median),
                    "L1 80->81 p90": _shown(g.step_p90),
                    "L1 80->81 max": _shown(g.step_max),
                    "L1 other steps median": _shown(g.other_median),
                    "largest step is 80->81": f"{g.largest_is_step} of {g.clips}",
                    "static pixels changing class at 80->81": _shown(g.static_change_step),
                    "at other steps": _shown(g.static_change_other),
                }
            )
        return rows

    def to_json(self) -> dict[str, Any]:
        """`by_group` is the table that decides; `groups` adds the curves. The policy stands in `pool_policy.json` alone."""
        value = {k: v for k, v in asdict(self).items() if k != "policy"}
        return {"by_group": self.table(), **value}


def group_numbers(family: str, look_change: bool, l1: np.ndarray, static_change: np.ndarray) -> StepNumbers:
    """Statistics of one group.

    Args:
        l1: float [clips, 108] from `clip_stats.class_histogram_step`, NaN where undefined.
        static_change: float [clips, 108], the `static_change` of `meta`.
    """
    at, others = l1[:, LOOK_STEP], np.delete(l1, LOOK_STEP, axis=1)
    known = np.isfinite(at)
    rest = np.max(np.where(np.isfinite(others), others, -1.0), axis=1, initial=-1.0)
    median, p10, p90 = (_by_step(l1, q) for q in (50, 10, 90))
    return StepNumbers(
        family, look_change, len(l1),
        step_median=_quantile(at, 50), step_p90=_quantile(at, 90), step_max=_quantile(at, 100),
        other_median=_quantile(others, 50),
        largest_is_step=int((known & (at > rest)).sum()),
        static_change_step=_quantile(static_change[:, LOOK_STEP], 50),
        static_change_other=_quantile(np.delete(static_change, LOOK_STEP, axis=1), 50),
        curve_median=median, curve_p10=p10, curve_p90=p90,
    )  # fmt: skip


def _quantile(values: np.ndarray, q: float) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.percentile(finite, q)) if finite.size else None


def _by_step(l1: np.ndarray, q: float) -> list[float | None]:
    return [_quantile(l1[:, i], q) for i in range(l1.shape[1])]


def look_change(settings: Settings) -> LookChangeReport:
    """Measure every clip of the index that has an extension and write `look_change.json`.

    Raises:
        OutputError: no index, or the `meta` of an indexed clip is missing, damaged or shorter than its row says.
    """
    rows, index_hash = read_index(settings)
    wanted = [r for r in rows if r.has_ext and "meta" in r.outputs]
    l1: dict[tuple[str, bool], list[np.ndarray]] = {}
    static: dict[tuple[str, bool], list[np.ndarray]] = {}
    for row in wanted:
        meta = read_meta(settings.paths.meta(row.clip))
        if len(meta.frames) != FULL_FRAMES:
            raise OutputError(
                f"meta of {row.clip} has {len(meta.frames)} frames, its row says {FULL_FRAMES}; build {row.run} again"
            )
        group = row.family, row.ext_look_change
        l1.setdefault(group, []).append(class_histogram_step(meta.class_px))
        static.setdefault(group, []).append(meta.static_change)
    report = LookChangeReport(
        tuple(group_numbers(*group, np.stack(l1[group]), np.stack(static[group])) for group in sorted(l1)),
        index_hash,
        read_policy(settings).policy,
        pool_sizes(rows),
        len(rows) - len(wanted),
    )
    publish_json(settings.paths.look_change, report.to_json())
    publish_bytes(settings.paths.look_change.with_suffix(".png"), look_change_plot(report))
    sync_folder(settings.paths.look_change.parent)
    return report


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


_COLOURS: Mapping[bool, str] = {True: "#c0392b", False: "#2c6fbb"}


def look_change_plot(report: LookChangeReport) -> bytes:
    """PNG: for each family, median and 10-90 % band of the L1 over the clip's steps, with 80->81 marked."""
    from io import BytesIO

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    families = sorted({g.family for g in report.groups}) or [""]
    figure = Figure(figsize=(8, 2.6 * len(families)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(families), 1, sharex=True, squeeze=False)[:, 0]
    for axis, family in zip(axes, families, strict=True):
        for g in (g for g in report.groups if g.family == family):
            x = np.arange(len(g.curve_median)) + 0.5  # a step lies between two frames
            low, middle, high = (np.array(c, np.float64) for c in (g.curve_p10, g.curve_median, g.curve_p90))
            name = f"look {'changes' if g.look_change else 'stays'} ({g.clips} clips)"
            axis.fill_between(x, low, high, color=_COLOURS[g.look_change], alpha=0.2, linewidth=0)
            axis.plot(x, middle, color=_COLOURS[g.look_change], linewidth=1.2, label=name)
        axis.axvline(LOOK_STEP + 0.5, color="0.3", linestyle="--", linewidth=0.8)
        axis.annotate("80→81", (LOOK_STEP + 0.5, 1.0), (3, -10), xycoords=("data", "axes fraction"),
                      textcoords="offset points", fontsize=8, color="0.3")  # fmt: skip
        axis.set_yscale("symlog", linthresh=1e-2)
        axis.set_ylim(bottom=0)
        axis.set_title(family, loc="left", fontsize=10)
        axis.set_ylabel("L1 of class histograms")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8, loc="upper left")
    axes[-1].set_xlabel("step between neighbouring frames of the clip and its extension")
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
