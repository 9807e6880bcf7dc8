"""Rows of the index: one for each clip whose files are all there and match what the settings ask for.

`index_run` derives `index/rows/<run>.jsonl` from the run's plan, its `meta` and the files themselves. Rows can be made
again at any time; what is finished is decided by the files, never by a row.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gc25d_core.capsules import Capsules
from gc25d_core.clip_stats import max_frame_offset_cm
from gc25d_core.errors import Fault, OutputError, SourceError
from gc25d_core.faults import read_accepted, read_faults
from gc25d_core.frames import CLIP_BLOCKS, CLIP_FRAMES
from gc25d_core.names import split_of
from gc25d_core.outputs.content import bytes_hash
from gc25d_core.outputs.files import READERS, CondFile, LatentsFile, MetaFile
from gc25d_core.outputs.fingerprint import fingerprint, kinds_of
from gc25d_core.outputs.ready import building
from gc25d_core.paths import Paths
from gc25d_core.plan import ClipPlan, read_plan
from gc25d_core.settings import Settings
from gc25d_core.source import RunInfo, RunSource, open_run

BURIED = "buried_player"
SOURCE_ERROR = "source_error"


class Output(msgspec.Struct, frozen=True):
    """One file of a clip."""

    path: str
    """Relative to the data set, `/` as separator."""
    bytes: int
    hash: str
    """xxh3_128 over the content (arrays), provenance excluded."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `index/clips.jsonl`. Only a row with `drop_reason` "source_error" may lack what its source never said."""

    clip: str
    run: str
    family: str
    scene: str
    """`01_valley`."""
    s: int
    split: str
    has_ext: bool
    drop_reason: str | None
    """null, "buried_player" or "source_error"."""
    look: str | None
    """`biome/lighting` of frame s."""
    ext_look: str | None
    """Look of frame s+81; null without extension."""
    ext_look_change: bool
    episode: int | None
    camera_variant: str | None
    mirrored_world: bool | None
    max_frame_offset_cm: float | None
    """Largest move of the player's capsule centroid between neighbouring frames, cm; 0 where no two have capsules."""
    player_px_mean: float | None
    """Target pixels a frame."""
    boss_px_mean: float | None
    boss_visible_frac: float | None
    player_hidden_frac: float | None
    """Share of the frames that are not dead; 0 where all are dead."""
    n_blocks: int
    prompts: list[tuple[int, str]]
    """Run-length: (block in clip where it starts, text)."""
    outputs: dict[str, Output]
    """By kind; empty for "source_error"."""

    @property
    def order(self) -> tuple[int, str, int]:
        """(scene id, run, s): the order of every list of clips."""
        return int(self.scene.split("_", 1)[0]), self.run, self.s


_decode = msgspec.json.Decoder(Row).decode


def encode_rows(rows: list[Row]) -> bytes:
    """Json lines in clip order. A NaN or infinity in a row is a ValueError: json has none, and none may become null."""
    rows = sorted(rows, key=lambda r: r.order)
    for row in rows:
        for name in row.__struct_fields__:
            value = getattr(row, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"clip {row.clip}: {name} is {value}, a row holds finite numbers only")
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def decode_rows(data: bytes, source: str = "rows") -> list[Row]:
    """Rows of a json lines file's bytes; OutputError names `source` and the line."""
    rows = []
    for n, line in enumerate(data.splitlines(), 1):
        try:
            rows.append(_decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as e:
            raise OutputError(f"{source}, line {n}: {e}; make the rows again (rematerialize run_index)") from e
    return rows


@dataclass(frozen=True, slots=True)
class RowStats:
    """Statistics over the clip's 81 frames; the extension is left out."""

    max_frame_offset_cm: float
    player_px_mean: float
    boss_px_mean: float
    boss_visible_frac: float
    player_hidden_frac: float


def row_stats(meta: MetaFile) -> RowStats:
    """Statistics of one clip from its `meta`."""
    player, boss, alive = meta.player_px[:CLIP_FRAMES], meta.boss_px[:CLIP_FRAMES], ~meta.dead[:CLIP_FRAMES]
    return RowStats(
        max_frame_offset_cm=max_frame_offset_cm([Capsules.from_rows(f) for f in meta.capsules[:CLIP_FRAMES]]),
        player_px_mean=float(player.mean()),
        boss_px_mean=float(boss.mean()),
        boss_visible_frac=float((boss > 0).mean()),
        player_hidden_frac=float((player[alive] == 0).mean()) if alive.any() else 0.0,
    )


def make_row(plan: ClipPlan, meta: MetaFile, outputs: Mapping[str, Output], buried_player_frac: float) -> Row:
    """The row of a finished clip."""
    stats = row_stats(meta)
    buried = stats.player_hidden_frac > buried_player_frac
    return Row(
        **planned_fields(plan),
        drop_reason=BURIED if buried else None,
        **{name: getattr(stats, name) for name in RowStats.__slots__},
        outputs=dict(outputs),
    )


def planned_fields(plan: ClipPlan) -> dict[str, Any]:
    """The fields of a row that the plan decides."""
    names = ("clip", "run", "family", "scene", "s", "split", "has_ext", "look", "ext_look", "ext_look_change", "episode",
             "camera_variant", "mirrored_world", "n_blocks")  # fmt: skip
    return {n: getattr(plan, n) for n in names} | {"prompts": [(int(j), str(text)) for j, text in plan.prompts]}


_UNKNOWN_STATS: dict[str, Any] = dict.fromkeys(RowStats.__slots__)


def accepted_row(info: RunInfo, planned: ClipPlan | None, clip: str) -> Row:
    """The row of a clip whose fault a person accepted: no outputs, `drop_reason` "source_error", null where unknown.

    Args:
        planned: the clip's plan, None where it could not even be planned.
    """
    if planned is not None:
        return Row(**planned_fields(planned), drop_reason=SOURCE_ERROR, **_UNKNOWN_STATS, outputs={})
    scene = f"{info.scene_id:02d}_{info.scene_name}"
    prefix = f"{scene}__{info.run}__"
    if not clip.startswith(prefix) or not clip[len(prefix) :].removeprefix("-").isdigit():
        raise ValueError(f"clip {clip!r} is not one of run {info.run}: its clips are named {prefix}<start>")
    return Row(
        clip=clip, run=info.run, family=info.family, scene=scene, s=int(clip[len(prefix) :]), split=split_of(info.run),
        has_ext=False, drop_reason=SOURCE_ERROR, look=None, ext_look=None, ext_look_change=False, episode=None,
        camera_variant=None, mirrored_world=None, n_blocks=CLIP_BLOCKS, prompts=[], **_UNKNOWN_STATS, outputs={},
    )  # fmt: skip


def read_outputs(settings: Settings, source: RunSource, plan: ClipPlan) -> tuple[dict[str, Output], MetaFile]:
    """Read every file of a clip: its outputs as a row lists them, and its `meta`.

    Raises:
        OutputError: a file is missing or damaged, or was made under other settings, code or source (its fingerprint).
    """
    outputs, meta = {}, None
    for kind in kinds_of(plan):
        path = settings.paths.clip(kind, plan.clip)
        file: CondFile | LatentsFile | MetaFile = READERS[kind](path)  # type: ignore[operator, assignment]
        try:
            wanted = fingerprint(kind, settings, source, plan)
        except (KeyError, SourceError) as e:
            raise OutputError(f"the source no longer has what {path} was planned from ({e}); plan the run again") from e
        got = file.provenance.get("fingerprint")
        if got != wanted:
            raise OutputError(
                f"{path}: fingerprint is {got}, the settings and the source ask for {wanted}; build the run again"
            )
        relative = path.relative_to(settings.paths.out).as_posix()
        outputs[kind] = Output(relative, os.stat(path).st_size, file.content_hash)
        if isinstance(file, MetaFile):
            meta = file
    assert meta is not None
    return outputs, meta


@dataclass(frozen=True, slots=True)
class RunIndexReport:
    """What became of the clips of one run; planned = rows + accepted + faults + missing, asserted."""

    run: str
    rows: int
    """Finished clips."""
    accepted: int
    """Rows without files: faults that a person accepted."""
    faults: int
    """Clips with a fault that nobody has accepted."""
    missing: tuple[tuple[str, str], ...]
    """(clip, why): planned clips that lack a file, or have one of another fingerprint, without a fault that says why."""
    rows_hash: str
    """xxh3_128 of the bytes of the rows file."""
    written: bool
    """Whether the rows on disk changed."""

    @property
    def planned(self) -> int:
        """Clips of the plan and clips that could not be planned."""
        return self.rows + self.accepted + self.faults + len(self.missing)


def index_run(settings: Settings, run: str) -> RunIndexReport:
    """Make the rows of one run and publish `index/rows/<run>.jsonl` (left alone if its bytes would be the same).

    Raises:
        OutputError: the run has no plan yet.
        SourceError: the run has planned clips and can no longer be opened.
    """
    plan = read_plan(settings, run)
    faulty = faulty_clips((*plan.faults, *read_faults(settings, run)))
    accepted = {clip for r, clip in read_accepted(settings) if r == run} & faulty
    planned = {c.clip: c for c in plan.clips}
    rows: list[Row] = []
    missing: list[tuple[str, str]] = []
    if plan.info is not None:
        rows = [accepted_row(plan.info, planned.get(clip), clip) for clip in sorted(accepted)]
    todo = [c for c in plan.clips if c.clip not in faulty]
    if todo:
        source = open_run(settings.src, run, cache=settings.paths.cache)
        try:
            for clip in todo:
                try:
                    outputs, meta = read_outputs(settings, source, clip)
                    rows.append(make_row(clip, meta, outputs, settings.buried_player_frac))
                except (OutputError, ValueError) as e:  # ValueError: capsules in meta that cannot be
                    missing.append((clip.clip, str(e)))
            source.save_cache()
        finally:
            source.close()
    data = encode_rows(rows)
    with building(settings) as build:
        written = build.publish_changed(settings.paths.rows(run), data)
    done = len(rows) - len(accepted)
    report = RunIndexReport(run, done, len(accepted), len(faulty - accepted), tuple(missing), bytes_hash(data), written)
    if report.planned != len(planned.keys() | faulty):
        raise AssertionError(f"run {run}: {len(planned.keys() | faulty)} clips planned, accounted for: {report}")
    return report


def faulty_clips(faults: Iterable[Fault]) -> set[str]:
    """Clips that a fault stands against: they get no finished row, whatever files they have."""
    return {f.clip for f in faults if f.clip is not None}


def read_rows(paths: Paths, run: str) -> list[Row]:
    """The rows of a run on disk; OutputError if there are none."""
    path = paths.rows(run)
    try:
        return decode_rows(path.read_bytes(), str(path))
    except FileNotFoundError as e:
        raise OutputError(f"{path}: no rows yet; rematerialize run_index of {run}") from e
