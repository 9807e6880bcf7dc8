"""Names of runs and clips, their order, their split.

Clip: `{scene_id:02d}_{scene_name}__{run}__{s:06d}`, ordered everywhere by (scene id, run, s) as values.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
FAMILIES = ("v10", "v9")
SPLITS = ("train", "val")


def is_name(text: str) -> bool:
    """Whether `text` may name a run or a scene."""
    return bool(_NAME.match(text))


def check_run_name(run: str) -> str:
    """`run` itself if it is legal, else ValueError that says the rule."""
    if not isinstance(run, str) or not is_name(run):
        raise ValueError(f"run name {run!r} is not 1 to 64 characters of A-Z a-z 0-9 _ -")
    return run


@dataclass(frozen=True, slots=True, order=True)
class ClipId:
    """One clip, by value. Its order is the order of the index: (scene id, run, s)."""

    scene_id: int
    run: str
    s: int
    scene_name: str = ""

    @property
    def name(self) -> str:
        return f"{self.scene_id:02d}_{self.scene_name}__{self.run}__{self.s:06d}"

    @property
    def scene(self) -> str:
        return f"{self.scene_id:02d}_{self.scene_name}"


def split_of(run: str) -> str:
    """`val` for about 5 % of the runs (assumed), decided by the run's name alone, so that adding runs moves none.

    int(first 8 hex digits of sha256(run), 16) % 20 == 0.
    """
    return "val" if int(hashlib.sha256(run.encode()).hexdigest()[:8], 16) % 20 == 0 else "train"
