"""What is to be made of one run: its clips, their extension, looks, prompts and actions, and what stands in the way.

The plan reads json and blocks only. It is derived: `index/plan/<run>.jsonl` can be rebuilt at any time and is never read
as status.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from gc25d_core.errors import Fault, OutputError, SourceError
from gc25d_core.frames import BLOCK, CLIP_FRAMES, clip_blocks, clip_frames, ext_blocks, ext_frames, full_blocks
from gc25d_core.geometry import Geometry
from gc25d_core.names import ClipId, split_of
from gc25d_core.source import FrameRecord, RunInfo, RunSource, open_run

if TYPE_CHECKING:
    from gc25d_core.settings import Settings


class ClipPlan(msgspec.Struct, frozen=True):
    """One clip that can be made, as far as json and blocks tell."""

    clip: str
    run: str
    family: str
    scene: str
    """`01_valley`."""
    scene_id: int
    s: int
    split: str
    has_ext: bool
    look: str
    """Look of frame s, `forest/dusk`."""
    ext_look: str | None
    """Look of frame s+81, None without extension."""
    ext_look_change: bool
    """has_ext and look(s+80) != look(s+81)."""
    episode: int
    camera_variant: str
    mirrored_world: bool
    n_blocks: int
    """20, or 27 with the extension."""
    prompts: list[tuple[int, str]]
    """Run-length: (block in clip, text) where the text changes."""
    actions: list[list[int]]
    """[n_blocks][A], uint8 values."""

    @property
    def id(self) -> ClipId:
        return ClipId(self.scene_id, self.run, self.s, self.scene.split("_", 1)[1])


class RunPlan(msgspec.Struct, frozen=True):
    """The plan of one run. `planned` clips = len(clips) + clips named in faults."""

    run: str
    info: RunInfo | None
    """None where run.json itself is unusable."""
    clips: tuple[ClipPlan, ...]
    faults: tuple[Fault, ...]
    ext_rule_differs: int
    """Clips whose has_ext would be another by the replaced process's rule (block s//4+26 alone)."""

    @property
    def planned(self) -> int:
        return len(self.clips) + len(self.failed)

    @property
    def failed(self) -> set[str]:
        """Clips that cannot be made."""
        return {f.clip for f in self.faults if f.clip is not None}


class _Head(msgspec.Struct, frozen=True):
    """First line of a plan file."""

    run: str
    info: RunInfo | None
    faults: tuple[Fault, ...]
    ext_rule_differs: int


def plan_source(source: RunSource, size: tuple[int, int]) -> RunPlan:
    """Plan an opened run for target size (width, height)."""
    info = source.info
    faults = list(source.problems)
    try:
        Geometry.fit(info.image_size, size)
    except ValueError as e:
        faults.append(
            source.fault(
                "size",
                str(e),
                member="run.json",
                got="x".join(map(str, info.image_size)),
                fix="choose another target size",
            )
        )
        return RunPlan(info.run, info, (), tuple(faults), 0)
    if not info.clip_starts:
        faults.append(
            source.fault(
                "no_clips",
                "clip_starts is empty",
                member="run.json",
                fix="list the first frame of each clip, or remove the run",
            )
        )
    starts = sorted(set(info.clip_starts))
    for s, count in sorted(Counter(info.clip_starts).items()):
        if count > 1:
            faults.append(
                source.fault(
                    "clip_twice", f"clip start {s} stands twice in clip_starts", member="run.json", fix="remove one"
                )
            )
    clips: list[ClipPlan] = []
    differs = 0
    records: dict[int, FrameRecord] = {}
    for s in starts:
        name = ClipId(info.scene_id, info.run, s, info.scene_name).name
        plan, clip_faults, old_ext = _plan_clip(source, s, name, records)
        faults.extend(clip_faults)
        if plan is not None:
            clips.append(plan)
            differs += plan.has_ext != old_ext
        records = {f: r for f, r in records.items() if f >= s}
    return RunPlan(info.run, info, tuple(clips), tuple(faults), differs)


def _plan_clip(
    source: RunSource, s: int, name: str, records: dict[int, FrameRecord]
) -> tuple[ClipPlan | None, list[Fault], bool]:
    info = source.info
    if s < 0 or s % BLOCK or s > 2**31 - 200:
        return (
            None,
            [
                source.fault(
                    "clip_start",
                    "a clip must start at a multiple of 4",
                    clip=name,
                    member="run.json",
                    got=str(s),
                    expected="0, 4, 8, ...",
                    fix="mend clip_starts",
                )
            ],
            False,
        )
    faults = _missing(source, clip_frames(s), name)
    gone = [b for b in clip_blocks(s) if b not in source.blocks]
    if gone:
        hint = f"; {len(source.problems)} problem(s) of the run are listed apart" if source.problems else ""
        faults.append(
            source.fault(
                "block_missing",
                f"the clip's blocks {_runs(gone)} are missing{hint}",
                clip=name,
                frame=gone[0] * BLOCK,
                member="blocks.jsonl",
                got=f"{20 - len(gone)} of 20 blocks",
                expected=f"blocks {clip_blocks(s).start}..{clip_blocks(s).stop - 1}",
                fix="add the lines, or remove the clip from clip_starts",
            )
        )
    ext_gone = source.missing(ext_frames(s))
    twice = [(f, k) for f, k in ext_gone if source.twice(f, k)]
    faults += _missing(source, (), name, twice)
    wanted = [*clip_frames(s), *(ext_frames(s) if not ext_gone else ())]
    for f in wanted if not faults else ():
        if f not in records:
            try:
                records[f] = source.record(f)
            except SourceError as e:
                faults += [_with_clip(x, name) for x in e.faults]
    if faults:
        return None, faults, False
    first, last = records[s], records[s + CLIP_FRAMES - 1]
    constant = not ext_gone and len({(records[f].episode, records[f].camera_variant) for f in wanted}) == 1
    has_ext = constant and all(b in source.blocks for b in ext_blocks(s))
    old_ext = constant and ext_blocks(s)[-1] in source.blocks
    blocks = [source.blocks[b] for b in full_blocks(s, has_ext)]
    ext_look = records[s + CLIP_FRAMES].look if has_ext else None
    texts = [(j, b.prompt) for j, b in enumerate(blocks)]
    prompts = [next(group) for _, group in groupby(texts, key=lambda t: t[1])]
    plan = ClipPlan(
        clip=name, run=info.run, family=info.family, scene=f"{info.scene_id:02d}_{info.scene_name}", scene_id=info.scene_id,
        s=s, split=split_of(info.run), has_ext=has_ext, look=first.look, ext_look=ext_look,
        ext_look_change=has_ext and ext_look != last.look, episode=first.episode, camera_variant=first.camera_variant,
        mirrored_world=first.mirrored_world, n_blocks=len(blocks), prompts=prompts, actions=[list(b.actions) for b in blocks],
    )  # fmt: skip
    return plan, [], old_ext


def _missing(
    source: RunSource, frames: range | tuple[int, ...], clip: str, members: list[tuple[int, str]] | None = None
) -> list[Fault]:
    faults = []
    for frame, kind in source.missing(frames) if members is None else members:
        try:
            source.read(frame, kind)
        except SourceError as e:
            faults += [_with_clip(f, clip) for f in e.faults]
    return faults


def _with_clip(fault: Fault, clip: str) -> Fault:
    return Fault.from_json({**fault.to_json(), "clip": clip})


def _runs(numbers: list[int]) -> str:
    """`3, 5-8`."""
    out: list[str] = []
    start = prev = numbers[0]
    for n in [*numbers[1:], None]:
        if n is None or n != prev + 1:
            out.append(str(start) if start == prev else f"{start}-{prev}")
            start = n if n is not None else start
        prev = n if n is not None else prev
    return ", ".join(out)


def plan_run(settings: Settings, run: str, *, write: bool = True) -> RunPlan:
    """Open, plan and (unless `write` is false) publish plan and faults where they changed.

    Faults of the source never raise: they are in the plan. A run that cannot be opened has no clips and its faults.
    """
    try:
        source = open_run(settings.src, run, cache=settings.paths.cache)
    except SourceError as e:
        plan = RunPlan(run, None, (), e.faults, 0)
    else:
        try:
            plan = plan_source(source, settings.size)
            source.save_cache()
        finally:
            source.close()
    if write:
        write_plan(settings, plan)
    return plan


def write_plan(settings: Settings, plan: RunPlan) -> None:
    """Publish `index/plan/<run>.jsonl` and the plan's faults where their content changed."""
    from gc25d_core.outputs.ready import building
    from gc25d_core.prepare.faults import write_faults

    head = _Head(plan.run, plan.info, plan.faults, plan.ext_rule_differs)
    data = b"".join(msgspec.json.encode(x) + b"\n" for x in (head, *plan.clips))
    with building(settings) as build:
        build.publish_changed(settings.paths.plan(plan.run), data)
        write_faults(settings, plan.run, "plan", plan.faults, build)


def read_plan(settings: Settings, run: str) -> RunPlan:
    """The plan as `index/plan/<run>.jsonl` has it.

    Raises:
        OutputError: the run has no plan yet, or its file is damaged.
    """
    path = settings.paths.plan(run)
    try:
        lines = path.read_bytes().splitlines()
        head = msgspec.json.decode(lines[0], type=_Head)
        clips = tuple(msgspec.json.decode(line, type=ClipPlan) for line in lines[1:])
    except FileNotFoundError:
        raise OutputError(f"run {run} has no plan yet ({path}); build the run") from None
    except (msgspec.MsgspecError, IndexError) as e:
        raise OutputError(f"{path}: damaged ({e}); build the run again") from e
    return RunPlan(head.run, head.info, clips, head.faults, head.ext_rule_differs)
