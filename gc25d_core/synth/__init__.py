"""Synthetic game recordings in the source format: scenes, characters, pictures, tar shards.

`write_source` writes whole runs, `iter_frames` yields frames in memory, `gc25d_core.synth.numbered` makes tiny runs
whose pixels say their own frame number. Names are loaded on first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gc25d_core.synth.frame_render import SynthFrame, iter_frames
    from gc25d_core.synth.plan import ClipPlan, RunPlan, plan_source
    from gc25d_core.synth.run_names import default_run_names
    from gc25d_core.synth.source_writer import write_source

__all__ = ["ClipPlan", "RunPlan", "SynthFrame", "default_run_names", "iter_frames", "plan_source", "write_source"]

_HOMES = {
    "SynthFrame": "frame_render",
    "iter_frames": "frame_render",
    "ClipPlan": "plan",
    "RunPlan": "plan",
    "plan_source": "plan",
    "default_run_names": "run_names",
    "write_source": "source_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
