"""Checks of every clip of one run: its row, its files, what is in them, their hashes and their fingerprints.

Nothing is decoded from the recording here except three json members a clip; `spot_*` modules do the deep ones.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gc25d_core.errors import OutputError, SourceError
from gc25d_core.faults import WHOLE_RUN, read_accepted, read_faults
from gc25d_core.names import split_of
from gc25d_core.outputs.content import content_hash
from gc25d_core.outputs.fingerprint import fingerprint
from gc25d_core.plan import ClipPlan, RunPlan, read_plan
from gc25d_core.rows import Row, decode_rows
from gc25d_core.settings import Settings
from gc25d_core.source import RunSource, open_run
from gc25d_core.verify.containers import read_raw
from gc25d_core.verify.leftovers import leftovers
from gc25d_core.verify.results import CheckResult, Findings
from gc25d_core.verify.values import Arrays, centroid_moves, shape_deviations, value_deviations


@dataclass
class _Checks:
    """The structural checks of one run while they collect."""

    run: str
    rows: Findings
    plan: Findings
    files: Findings
    shapes: Findings
    values: Findings
    content: Findings
    fingerprints: Findings
    statistics: Findings

    @classmethod
    def of(cls, run: str) -> _Checks:
        return cls(
            run,
            Findings("rows", "one whole row for each clip of the plan, equal to it; none for any other"),
            Findings("plan", "prompts, actions, looks, episode, extension as blocks and json of the source have them"),
            Findings("files", "every file there, whole (CRC-32 of every member), of the size its row says"),
            Findings("shapes", "members, dtypes and shapes of the format"),
            Findings("values", "ranges; frames, actions, pixel counts, ground and geometry agree across files"),
            Findings("content_hash", "hash of the content equals the row's"),
            Findings("fingerprint", "made under these settings, this code, from these source members"),
            Findings("row_statistics", "statistics of the row follow from meta"),
        )

    def all(self) -> list[Findings]:
        return [
            self.rows,
            self.plan,
            self.files,
            self.shapes,
            self.values,
            self.content,
            self.fingerprints,
            self.statistics,
        ]


def structural_run(settings: Settings, run: str, *, scan: bool = True) -> list[CheckResult]:
    """Every structural check of one run.

    Args:
        scan: also look for left-over and foreign files of this run (`verify` does so once for the whole data set).

    Returns:
        One result a check. A run without plan or rows fails `rows`; it never raises for what lies on the disk.
    """
    checks = _Checks.of(run)
    names: dict[str, bool] = {}
    source: RunSource | None = None
    try:
        plan = read_plan(settings, run)
        rows = decode_rows(settings.paths.rows(run).read_bytes(), str(settings.paths.rows(run)))
        names = clip_names(plan)
        todo = _check_rows(settings, checks.rows, plan, rows)
        source = _open(settings, run, checks)
        for clip, row in todo:
            _check_clip(settings, checks, source, clip, row)
    except (OutputError, FileNotFoundError) as e:
        what = f"no rows yet ({e.filename})" if isinstance(e, FileNotFoundError) else str(e)
        checks.rows.add(what, run=run)
    finally:
        if source is not None:
            source.save_cache()
            source.close()
    results = [c.result(applicable=c.clips > 0 or bool(c.found)) for c in checks.all()]
    return results + (leftovers(settings, {run: names}) if scan else [])


def clip_names(plan: RunPlan) -> dict[str, bool]:
    """Every clip of a run that may have files, and whether it has an extension."""
    return dict.fromkeys(plan.failed, False) | {c.clip: c.has_ext for c in plan.clips}


def _open(settings: Settings, run: str, checks: _Checks) -> RunSource | None:
    try:
        return open_run(settings.src, run, cache=settings.paths.cache)
    except SourceError as e:
        if (run, WHOLE_RUN) in read_accepted(settings):
            return None  # a person decided that the run stays out
        why = f"the source of the run cannot be opened, so nothing can be compared with it: {e}"
        checks.fingerprints.add(why, run=run)
        return None


def _check_rows(settings: Settings, found: Findings, plan: RunPlan, rows: list[Row]) -> list[tuple[ClipPlan, Row]]:
    """Rows against plan, faults and acceptances. Returns the clips whose files are to be checked."""
    run = plan.run
    faulty = plan.failed | {f.clip for f in read_faults(settings, run) if f.clip is not None}
    accepted = {clip for r, clip in read_accepted(settings) if r == run}
    by_clip = {r.clip: r for r in rows}
    if len(by_clip) != len(rows):
        found.add("a clip has more than one row", run=run)
    if [r.clip for r in rows] != [r.clip for r in sorted(rows, key=lambda r: (int(r.scene.split("_")[0]), r.run, r.s))]:
        found.add("rows are not in the order (scene id, run, s)", run=run)
    wanted = {c.clip: c for c in plan.clips}
    for clip in sorted(wanted.keys() | by_clip.keys() | (faulty & accepted)):
        row = by_clip.get(clip)
        if clip in faulty:
            if (row is not None) != (clip in accepted):
                found.add(
                    "has a fault and a row, not accepted" if row else "accepted fault without its row",
                    run=run,
                    clip=clip,
                )
            elif row is not None and (row.drop_reason != "source_error" or row.outputs):
                found.add("row of an accepted fault has outputs or another drop_reason", run=run, clip=clip)
        elif row is None:
            found.add("planned, without fault, and has no row", run=run, clip=clip)
        elif clip not in wanted:
            found.add("has a row and is not planned", run=run, clip=clip)
    found.clips += len(wanted.keys() | faulty)
    return [(wanted[clip], by_clip[clip]) for clip in wanted if clip in by_clip and clip not in faulty]


def _check_clip(settings: Settings, checks: _Checks, source: RunSource | None, clip: ClipPlan, row: Row) -> None:
    at: dict[str, Any] = {"run": clip.run, "clip": clip.clip}
    _row_follows_plan(checks.rows, clip, row)
    if source is not None:
        _plan_follows_source(checks.plan, source, clip)
    kinds = ("latents", "cond", "cond_ext", "meta") if clip.has_ext else ("latents", "cond", "meta")
    if set(row.outputs) != set(kinds):
        checks.rows.add(f"outputs are {sorted(row.outputs)}, expected {sorted(kinds)}", **at)
    arrays: Arrays = {}
    checks.files.clips += 1
    for kind in kinds:
        path = settings.paths.clip(kind, clip.clip)
        try:
            arrays[kind], provenance = read_raw(kind, path)
        except OutputError as e:
            checks.files.add(str(e), **at)
            continue
        output = row.outputs.get(kind)
        if output is not None:
            if (settings.out / output.path) != path:
                checks.rows.add(
                    f"{kind}: path is {output.path}, expected {path.relative_to(settings.out).as_posix()}", **at
                )
            if output.bytes != path.stat().st_size:
                checks.files.add(f"{kind}: {path.stat().st_size} bytes, its row says {output.bytes}", **at)
            if output.hash != (got := content_hash(arrays[kind])):
                checks.content.add(f"{kind}: content hash is {got}, its row says {output.hash}", **at)
        _check_provenance(settings, checks.fingerprints, source, clip, kind, provenance)
    checks.content.clips += 1
    checks.fingerprints.clips += source is not None
    if len(arrays) < len(kinds):
        return
    _check_arrays(settings, checks, source, clip, row, arrays)


def _check_arrays(
    settings: Settings, checks: _Checks, source: RunSource | None, clip: ClipPlan, row: Row, arrays: Arrays
) -> None:
    at: dict[str, Any] = {"run": clip.run, "clip": clip.clip}
    checks.shapes.clips += 1
    wrong = list(shape_deviations(arrays, clip, settings.size))
    for frame, what in wrong:
        checks.shapes.add(what, frame=frame, **at)
    if wrong:
        return
    checks.values.clips += 1
    image_size = source.info.image_size if source is not None else _image_size(arrays)
    for frame, what in value_deviations(arrays, clip, image_size=image_size, size=settings.size):
        checks.values.add(what, frame=frame, **at)
    checks.statistics.clips += 1
    for what in _wrong_statistics(row, arrays["meta"], settings.buried_player_frac):
        checks.statistics.add(what, **at)


def _image_size(arrays: Arrays) -> tuple[int, int]:
    w, h = json.loads(str(arrays["meta"]["geometry"]))["source"]
    return w, h


def _row_follows_plan(found: Findings, clip: ClipPlan, row: Row) -> None:
    for name in ("run", "family", "scene", "s", "split", "has_ext", "look", "ext_look", "ext_look_change", "episode",
                 "camera_variant", "mirrored_world", "n_blocks"):  # fmt: skip
        if getattr(row, name) != getattr(clip, name):
            found.add(
                f"{name} is {getattr(row, name)!r}, the plan says {getattr(clip, name)!r}", run=clip.run, clip=clip.clip
            )
    if [list(p) for p in row.prompts] != [list(p) for p in clip.prompts]:
        found.add("prompts are not the plan's", run=clip.run, clip=clip.clip)
    name = f"{clip.scene_id:02d}_{clip.scene.split('_', 1)[1]}__{clip.run}__{clip.s:06d}"
    if (row.clip, row.split) != (name, split_of(clip.run)):
        found.add(
            f"named {row.clip} in split {row.split}, expected {name} in {split_of(clip.run)}",
            run=clip.run,
            clip=clip.clip,
        )


def _plan_follows_source(found: Findings, source: RunSource, clip: ClipPlan) -> None:
    """Blocks in full; json of frames s, s+80 and s+81. Whether every frame between agrees is a spot check."""
    found.clips += 1
    at: dict[str, Any] = {"run": clip.run, "clip": clip.clip}
    first = clip.s // 4
    try:
        blocks = [source.blocks[b] for b in range(first, first + clip.n_blocks)]
        records = [source.record(clip.s + i) for i in ((0, 80, 81) if clip.has_ext else (0, 80))]
    except (KeyError, SourceError) as e:
        found.add(f"the source no longer has what the plan needs ({e}); build the run again", **at)
        return
    if [list(b.actions) for b in blocks] != clip.actions:
        found.add("actions are not those of blocks.jsonl", **at)
    changes = [j for j in range(len(blocks)) if j == 0 or blocks[j].prompt != blocks[j - 1].prompt]
    if [(j, blocks[j].prompt) for j in changes] != [(j, text) for j, text in clip.prompts]:
        found.add("prompts are not those of blocks.jsonl", **at)
    looks = records[0].look, records[2].look if clip.has_ext else None
    changed = clip.has_ext and records[1].look != records[2].look
    if (clip.look, clip.ext_look, clip.ext_look_change) != (*looks, changed):
        found.add(f"looks are {clip.look}, {clip.ext_look}; the source has {looks[0]}, {looks[1]}", **at)
    for name in ("episode", "camera_variant", "mirrored_world"):
        if any(getattr(r, name) != getattr(clip, name) for r in (records if clip.has_ext else records[:1])):
            found.add(f"{name} is {getattr(clip, name)!r}, the source has {[getattr(r, name) for r in records]}", **at)


def _check_provenance(
    settings: Settings, found: Findings, source: RunSource | None, clip: ClipPlan, kind: str, provenance: dict[str, Any]
) -> None:
    at: dict[str, Any] = {"run": clip.run, "clip": clip.clip}
    if (provenance.get("kind"), provenance.get("clip")) != (kind, clip.clip):
        found.add(f"{kind}: provenance speaks of {provenance.get('kind')} of {provenance.get('clip')}", **at)
    if source is None:
        return
    try:
        wanted = fingerprint(kind, settings, source, clip)
    except (KeyError, SourceError) as e:
        found.add(f"{kind}: the source no longer has its members ({e})", **at)
        return
    if provenance.get("fingerprint") != wanted:
        found.add(
            f"{kind}: fingerprint is {provenance.get('fingerprint')}, expected {wanted}; build the run again", **at
        )


def _wrong_statistics(row: Row, meta: dict[str, np.ndarray], buried_player_frac: float) -> list[str]:
    player, boss = meta["class_px"][:81, 12:17].sum(axis=1), meta["class_px"][:81, 17:22].sum(axis=1)
    alive = np.flatnonzero(~meta["dead"][:81])
    hidden = int((player[alive] == 0).sum()) / len(alive) if len(alive) else 0.0
    wanted = {
        "max_frame_offset_cm": centroid_moves(meta["capsules"][:81]),
        "player_px_mean": int(player.sum()) / 81,
        "boss_px_mean": int(boss.sum()) / 81,
        "boss_visible_frac": int((boss > 0).sum()) / 81,
        "player_hidden_frac": hidden,
    }
    wrong = [
        f"{name} is {getattr(row, name)}, meta says {value}"
        for name, value in wanted.items()
        if getattr(row, name) is None or not math.isclose(getattr(row, name), value, rel_tol=1e-6, abs_tol=1e-6)
    ]
    reason = "buried_player" if hidden > buried_player_frac else None
    if row.drop_reason != reason:
        wrong.append(f"drop_reason is {row.drop_reason!r}, expected {reason!r}")
    return wrong
