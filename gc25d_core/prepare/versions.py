"""Versions of the libraries that shape outputs, for provenance. Nothing is imported to ask."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

import gc25d_core

_NAMES = ("numpy", "opencv-python-headless", "opencv-python", "simplejpeg", "numba", "torch", "diffsynth", "isal")


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("gc25d", gc25d_core.__version__)]
    for name in _NAMES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def library_versions() -> dict[str, str]:
    """Package name to version, of those that are installed."""
    return dict(_versions())
