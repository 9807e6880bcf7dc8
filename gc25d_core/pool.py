"""The pool that the distillation stage trains on, and the decision about clips whose look changes at cell 21.

Pool = `has_ext`, no `drop_reason`, split train. Policy `same_look` (default, recommended) also leaves out clips whose look
changes between frames s+80 and s+81; `all` keeps them. Nothing is encoded anew for either: the decision is reversible.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from gc25d_core.errors import OutputError
from gc25d_core.index import count_by_family, read_index
from gc25d_core.outputs.publish import publish_bytes, publish_json, read_json, sync_folder
from gc25d_core.rows import Row
from gc25d_core.settings import Settings

POLICIES = ("same_look", "all")
DEFAULT_POLICY = "same_look"


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """Which policy holds, and who decided it when."""

    policy: str
    who: str | None
    """None: nobody has chosen, the default holds."""
    when: str | None
    """ISO 8601, UTC."""


@dataclass(frozen=True, slots=True)
class PoolReport:
    """The pool as it is on disk now."""

    policy: PolicyChoice
    size: int
    sizes: dict[str, dict[str, int]]
    """{policy: {family: clips, "all": clips}}, for every policy."""
    index_hash: str
    """Of the `clips.jsonl` it was made from; every row carries it."""
    left_out: dict[str, int]
    """Clips of the index that are not in this pool, by the first reason that applies."""


def read_policy(settings: Settings) -> PolicyChoice:
    """The policy that holds: the persisted choice, or the default."""
    path = settings.paths.pool_policy
    try:
        found = read_json(path)
    except ValueError as e:
        raise OutputError(f"{path}: cannot be read ({e}); set the policy again (gc25d pool --policy ...)") from e
    if found is None:
        return PolicyChoice(DEFAULT_POLICY, None, None)
    if not isinstance(found, dict) or found.get("policy") not in POLICIES:
        raise OutputError(f"{path}: holds {found!r}, expected a policy of {', '.join(POLICIES)}; set it again")
    return PolicyChoice(found["policy"], found.get("who"), found.get("when"))


def write_policy(settings: Settings, policy: str, who: str | None = None) -> PolicyChoice:
    """Persist a choice; every later launch reads it, the schedule included. `who` defaults to the user's name.

    Raises:
        ValueError: no such policy.
    """
    if policy not in POLICIES:
        raise ValueError(f"policy {policy!r}: expected one of {', '.join(POLICIES)}")
    choice = PolicyChoice(policy, who or _user(), datetime.now(UTC).isoformat(timespec="seconds"))
    publish_json(settings.paths.pool_policy, asdict(choice))
    sync_folder(settings.paths.pool_policy.parent)
    return choice


def left_out_because(row: Row, policy: str) -> str | None:
    """Why a clip is not in the pool under `policy`, None if it is in it."""
    if row.drop_reason is not None:
        return row.drop_reason
    if row.split != "train":
        return f"split {row.split}"
    if not row.has_ext:
        return "no extension"
    if policy == "same_look" and row.ext_look_change:
        return "look changes"
    return None


def in_pool(row: Row, policy: str) -> bool:
    """Whether a clip belongs to the pool under `policy`."""
    return left_out_because(row, policy) is None


def pool_sizes(rows: list[Row]) -> dict[str, dict[str, int]]:
    """{policy: {family: clips, "all": clips}} for every policy."""
    none = dict.fromkeys(sorted({r.family for r in rows}), 0)
    return {policy: none | count_by_family(r for r in rows if in_pool(r, policy)) for policy in POLICIES}


def build_pool(settings: Settings, policy: str | None = None, who: str | None = None) -> PoolReport:
    """Write `dmd_pool.jsonl` from the index, in its order, each row with `index_hash`.

    Args:
        policy: a new choice, which is persisted; None keeps the one that holds.

    Raises:
        OutputError: there is no index, or the persisted policy cannot be read.
    """
    rows, index_hash = read_index(settings)
    choice = read_policy(settings) if policy is None else write_policy(settings, policy, who)
    reasons = [left_out_because(r, choice.policy) for r in rows]
    pool = [r for r, reason in zip(rows, reasons, strict=True) if reason is None]
    left_out: dict[str, int] = {}
    for reason in reasons:
        if reason is not None:
            left_out[reason] = left_out.get(reason, 0) + 1
    data = b"".join(_line(r, index_hash) for r in pool)
    path = settings.paths.dmd_pool
    if not path.is_file() or path.read_bytes() != data:
        publish_bytes(path, data)
        sync_folder(path.parent)
    return PoolReport(choice, len(pool), pool_sizes(rows), index_hash, left_out)


def _user() -> str:
    """Name of this process's user; containers often run under a number without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def _line(row: Row, index_hash: str) -> bytes:
    fields: dict[str, Any] = msgspec.to_builtins(row)
    return msgspec.json.encode({**fields, "index_hash": index_hash}) + b"\n"
