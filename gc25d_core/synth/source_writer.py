"""Writes a synthetic source: frames are drawn in batches by worker processes, the parent alone writes.

The parent writes in planned order, so the bytes depend on the options and the seed, never on the number of workers.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gc25d_core.synth.encode import frame_members
from gc25d_core.synth.frame_render import Stage
from gc25d_core.synth.plan import ClipPlan, RunPlan, plan_source
from gc25d_core.synth.shards import new_run_folder, write_run_files, write_shards

BATCH = 24
_MOST_MEMBERS_A_SHARD = 4000
_PIXELS_WORTH_A_POOL = 30_000_000

Members = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Batch:
    """A worker's task: frames of a run to draw, each with its clip. `run` has no clips (it stands for the world)."""

    run: RunPlan
    frames: tuple[tuple[ClipPlan, int], ...]


@lru_cache(maxsize=2)
def _stage(run: RunPlan) -> Stage:
    return Stage(run)


def draw_batch(batch: Batch) -> Members:
    """The members of a batch's frames, encoded, frame after frame."""
    stage = _stage(batch.run)
    members: Members = []
    for clip, frame in batch.frames:
        drawn = stage.render(clip.state(frame))
        members += frame_members(frame, drawn.rgb, drawn.ids, drawn.json)
    return members


def batches_of(plan: RunPlan) -> list[Batch]:
    """The run's frames in the order in which they are written."""
    order = [(clip, frame) for clip in plan.clips for frame in clip.frames]
    if plan.shuffled_frames:
        order = [order[i] for i in plan.rng("order").permutation(len(order))]
    world = replace(plan, clips=())
    return [Batch(world, tuple(order[i : i + BATCH])) for i in range(0, len(order), BATCH)]


def write_source(
    root: Path | str,
    *,
    runs: int,
    clips: int,
    size: tuple[int, int],
    seed: int,
    workers: int | None = None,
    resume: bool = False,
) -> list[RunPlan]:
    """Writes `runs` runs of `clips` clips into `root` and returns their plans.

    Args:
        root: folder of the source; made if missing.
        runs: number of runs, named by `default_run_names`.
        clips: clips a run.
        size: (W, H) of the pictures in px.
        seed: decides everything but the names.
        workers: processes that draw; 1 draws here, None takes the free cores where the work is worth a pool. More than
            one starts fresh interpreters, so a script needs the usual `if __name__ == "__main__"`.
        resume: keep the runs that an earlier call with the same options finished, and write the others.

    Raises:
        FileExistsError: a run is there already and `resume` is off, or its `run.json` speaks of other options. Nothing
            is written then.
        ValueError: a count or a size that makes no source.
    """
    if runs < 1 or clips < 1 or min(size) < 16:
        raise ValueError(f"need runs >= 1, clips >= 1 and sides >= 16 px, got {runs = }, {clips = }, {size = }")
    root = Path(root)
    plans = plan_source(runs=runs, clips=clips, size=size, seed=seed)
    missing = _missing(root, plans, resume=resume)
    for plan, members in zip(missing, _drawn_runs(missing, workers), strict=True):
        _write_run(root, plan, members)
    return plans


def _missing(root: Path, plans: list[RunPlan], *, resume: bool) -> list[RunPlan]:
    """The runs that are still to be written; FileExistsError where those that are there stand in the way."""
    there = [plan for plan in plans if (root / plan.run).exists()]
    if resume:
        other = [plan for plan in there if json.loads((root / plan.run / "run.json").read_text()) != plan.run_json()]
        advice = "were written with other options"
    else:
        other, advice = there, "are there already (resume keeps finished runs)"
    if other:
        raise FileExistsError(f"{root}: {len(other)} of {len(plans)} runs {advice}: {other[0].run}, ...")
    return [plan for plan in plans if plan not in there]


def _write_run(root: Path, plan: RunPlan, batches: Iterable[Members]) -> None:
    """One run's folder. Members of the frames of a batch change places, so that shards cut frames apart."""
    rng = plan.rng("members")
    total = 3 * sum(clip.n_frames for clip in plan.clips)
    shards = max(3, math.ceil(total / _MOST_MEMBERS_A_SHARD))

    def in_order() -> Iterator[tuple[str, bytes]]:
        for members in batches:
            order = rng.permutation(len(members)) if plan.shuffled_frames else range(len(members))
            yield from (members[i] for i in order)

    with new_run_folder(root, plan.run) as folder:
        write_run_files(folder, plan.run_json(), plan.block_rows())
        # One more than an even share: the last shard is shorter, and a shard's end may fall within a frame.
        write_shards(folder, in_order(), per_shard=total // shards + 1)


def _drawn_runs(plans: list[RunPlan], workers: int | None) -> Iterator[Iterator[Members]]:
    """For each run its drawn batches. Each must be used up before the next is taken."""
    work = [batches_of(plan) for plan in plans]
    if not plans:
        return
    if workers is None:
        pixels = sum(clip.n_frames for plan in plans for clip in plan.clips) * math.prod(plans[0].size)
        workers = len(os.sched_getaffinity(0)) if pixels >= _PIXELS_WORTH_A_POOL else 1
    if workers <= 1:
        for batches in work:
            yield map(draw_batch, batches)
        return
    # One frame here first: it compiles the kernels into the cache, from which every worker then loads them.
    first = work[0][0]
    draw_batch(Batch(replace(first.run, size=(32, 16)), first.frames[:1]))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_end_with_parent) as pool:
        results = _ahead(pool, [batch for batches in work for batch in batches], depth=4 * workers)
        for batches in work:
            yield (next(results) for _ in batches)


def _ahead(pool: ProcessPoolExecutor, batches: list[Batch], *, depth: int) -> Iterator[Members]:
    """Results in order with at most `depth` batches under way, so that memory does not grow with the source."""
    waiting: deque[Future[Members]] = deque()
    for batch in batches:
        waiting.append(pool.submit(draw_batch, batch))
        if len(waiting) >= depth:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _end_with_parent() -> None:
    """Lets a worker end when the parent is gone, killed ones included; it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
