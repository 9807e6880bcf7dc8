"""The Wan2.2 VAE: its weights, the encoder from frames to latents, and the narrow demo VAE.

Importing this package does not import torch: naming a checkpoint and hashing it must stay cheap, so that finished work
is recognised in a second. Names that need torch are resolved on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gc25d_core.vae.identity import DEMO_VAE_PATH, VaeFileError, resolve_vae_path, vae_hash
from gc25d_core.vae.provenance import Rule, same_rule

if TYPE_CHECKING:
    from gc25d_core.vae.checkpoint import load_vae
    from gc25d_core.vae.encode import EncodedClip, Encoder, open_encoder

_LAZY = {
    "load_vae": "gc25d_core.vae.checkpoint",
    "EncodedClip": "gc25d_core.vae.encode",
    "Encoder": "gc25d_core.vae.encode",
    "open_encoder": "gc25d_core.vae.encode",
}

__all__ = [
    "DEMO_VAE_PATH",
    "EncodedClip",
    "Encoder",
    "Rule",
    "VaeFileError",
    "load_vae",
    "open_encoder",
    "resolve_vae_path",
    "same_rule",
    "vae_hash",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
