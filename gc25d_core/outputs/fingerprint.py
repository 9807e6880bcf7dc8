"""Fingerprints: what shaped an output. A file with the fingerprint of now is finished; any other is redone.

fingerprint = settings that shape this kind + code version of its step + hashes of just the members it uses
            + the VAE's hash for latents
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gc25d_core.errors import OutputError
from gc25d_core.frames import clip_frames, ext_frames, full_frames
from gc25d_core.outputs.content import json_hash
from gc25d_core.outputs.files import read_provenance

if TYPE_CHECKING:
    from gc25d_core.plan import ClipPlan
    from gc25d_core.settings import Settings
    from gc25d_core.source import RunSource

CODE_VERSION = {"latents": 1, "cond": 1, "cond_ext": 1, "meta": 1}
"""Raised by hand when a step's code changes what it writes."""


def kinds_of(plan: ClipPlan) -> tuple[str, ...]:
    """The outputs a clip must have."""
    return ("latents", "cond", "meta", "cond_ext") if plan.has_ext else ("latents", "cond", "meta")


def members(kind: str, plan: ClipPlan) -> list[tuple[int, str]]:
    """(frame, member kind) of everything an output is made from, blocks apart."""
    if kind == "latents":
        return [(f, "jpg") for f in clip_frames(plan.s)]
    frames = {"cond": clip_frames(plan.s), "cond_ext": ext_frames(plan.s), "meta": full_frames(plan.s, plan.has_ext)}[
        kind
    ]
    return [(f, k) for f in frames for k in ("json", "ids")]


def source_digest(kind: str, source: RunSource, plan: ClipPlan) -> str:
    """Digest of the content hashes of an output's members (and of the actions, for latents)."""
    parts: list[Any] = [[f, k, source.member_hash(f, k)] for f, k in members(kind, plan)]
    if kind == "latents":
        parts.append(plan.actions)
    return json_hash(parts)


def fingerprint(kind: str, settings: Settings, source: RunSource, plan: ClipPlan) -> str:
    """32 hex digits; see the module's text."""
    shape: dict[str, Any] = {
        "kind": kind, "code": CODE_VERSION[kind], "size": list(settings.size), "image_size": list(source.info.image_size),
        "source": source_digest(kind, source, plan),
    }  # fmt: skip
    if kind == "latents":
        shape |= {"vae": settings.vae_hash, "precision": settings.precision}
    return json_hash(shape)


def is_finished(path: Path, wanted: str) -> bool:
    """Whether `path` exists, opens, and carries this fingerprint."""
    try:
        return read_provenance(path).get("fingerprint") == wanted
    except OutputError:
        return False
