"""Deep check of one clip against the recording, read a second way (`raw_source`) and labelled a second way (`ray_oracle`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gc25d_core.camera import Camera
from gc25d_core.capsules import Capsules
from gc25d_core.errors import OutputError
from gc25d_core.geometry import Geometry
from gc25d_core.labels import NoCapsules, label_parts, label_parts_from_meta
from gc25d_core.names import ClipId
from gc25d_core.rows import Row
from gc25d_core.settings import Settings
from gc25d_core.verify.containers import read_raw
from gc25d_core.verify.raw_source import RawRun, nearest
from gc25d_core.verify.ray_oracle import unlike_definition
from gc25d_core.verify.results import CheckResult, Findings

ORACLE_EVERY = 8
"""The slow second labelling looks at every 8th frame."""
META_SHARE = 0.999
"""Share of the character pixels on which labels from float32 metadata must agree with `cond`."""
_RAW_OK = (0, 1, 2, 3, 4, 5, 6, 10, 11)


def spot_source(settings: Settings, row: Row) -> list[CheckResult]:
    """Raw ids valid; condition maps equal to resampled ids and to labels made anew; row and meta equal to the json.

    Never raises for what lies on the disk: a file or member that cannot be read is a finding of the check that needs it.
    """
    ids_ok = Findings("spot_raw_ids", "raw ids are 0..6, 10, 11 at full resolution")
    same = Findings("spot_ids", "collapse_parts(cond) equals nearest-resampled ids on every pixel, extension included")
    labels = Findings("spot_labels", "labels made from the source's json equal cond on every pixel")
    oracle = Findings(
        "spot_oracle", f"parts are those the definition allows (own ray casting, every {ORACLE_EVERY}th frame)"
    )
    from_meta = Findings(
        "spot_labels_meta", f"labels made from meta alone agree on {META_SHARE} of the character pixels"
    )
    json_ok = Findings("spot_row", "row and meta say what the json and blocks of the source say")
    checks = [ids_ok, same, labels, oracle, from_meta, json_ok]
    at: dict[str, Any] = {"run": row.run, "clip": row.clip}
    for c in checks:
        c.clips = 1
    try:
        raw = RawRun(settings.src, row.run)
        parts, meta = _stored(settings, row)
        geometry = Geometry.fit((raw.info["image_size"][0], raw.info["image_size"][1]), settings.size)
        records = [raw.record(f) for f in range(row.s, row.s + len(parts))]
    except (OutputError, OSError, KeyError, ValueError, EOFError) as e:
        for c in checks:
            c.add(f"cannot be checked: {type(e).__name__}: {e}", **at)
        return [c.result() for c in checks]
    _check_row(json_ok, raw, row, records, meta)
    columns, rows = nearest(geometry.source, geometry.target)
    agree = characters = tested = 0
    for i, record in enumerate(records):
        frame = row.s + i
        try:
            full = raw.ids(frame)
        except (KeyError, ValueError, OSError) as e:
            ids_ok.add(str(e), frame=frame, **at)
            continue
        if bad := [int(v) for v in np.unique(full) if v not in _RAW_OK]:
            ids_ok.add(f"ids {bad}", frame=frame, **at)
            continue
        small = np.ascontiguousarray(full[np.ix_(rows, columns)])
        if n := int(np.count_nonzero(_collapsed(parts[i]) != small)):
            same.add(f"{n} pixels differ", frame=frame, **at)
        try:
            made = label_parts(small, _camera(record), _capsules(record), geometry)
            if n := int(np.count_nonzero(made != parts[i])):
                labels.add(f"{n} pixels differ", frame=frame, **at)
            again = label_parts_from_meta(
                small, meta["K"][i], meta["world_to_camera"][i], meta["capsules"][i], geometry
            )
        except (NoCapsules, ValueError) as e:
            labels.add(str(e), frame=frame, **at)
            continue
        mine = small >= 10
        characters += int(np.count_nonzero(mine))
        agree += int(np.count_nonzero((again == parts[i]) & mine))
        if i % ORACLE_EVERY == 0:
            tested += int(np.count_nonzero(mine))
            if n := unlike_definition(small, parts[i], columns, rows, record):
                oracle.add(f"{n} pixels show a part that the definition does not allow", frame=frame, **at)
    same.figure = {"frames": len(parts), "pixels": int(parts.size)}
    oracle.figure = {"character_pixels": tested}
    share = agree / characters if characters else None
    from_meta.figure = {"share_min": share, "character_pixels": characters}
    if share is not None and share < META_SHARE:
        from_meta.add(f"agree on {share:.5f} of {characters} character pixels", **at)
    return [c.result(applicable=c is not from_meta or share is not None) for c in checks]


def _stored(settings: Settings, row: Row) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    parts = [
        read_raw(kind, settings.paths.clip(kind, row.clip))[0]["parts"]
        for kind in ("cond", "cond_ext")[: 1 + row.has_ext]
    ]
    meta, _ = read_raw("meta", settings.paths.meta(row.clip))
    stacked = np.concatenate(parts)
    if len(stacked) != (109 if row.has_ext else 81) or len(meta["frames"]) != len(stacked):
        raise ValueError(
            f"{len(stacked)} frames in cond and cond_ext, {len(meta['frames'])} in meta, has_ext is {row.has_ext}"
        )
    return stacked, meta


def _collapsed(parts: np.ndarray) -> np.ndarray:
    out = parts.copy()
    out[(parts >= 12) & (parts <= 16)] = 10
    out[(parts >= 17) & (parts <= 21)] = 11
    return out


def _camera(record: dict[str, Any]) -> Camera:
    c = record["camera"]
    return Camera(c["fx"], c["fy"], c["cx"], c["cy"], np.array(c["world_to_camera"], np.float64))


def _capsules(record: dict[str, Any]) -> Capsules:
    return Capsules.from_records([(c["owner"], c["part"], c["a"], c["b"], c["radius"]) for c in record["capsules"]])


def _check_row(
    found: Findings, raw: RawRun, row: Row, records: list[dict[str, Any]], meta: dict[str, np.ndarray]
) -> None:
    at: dict[str, Any] = {"run": row.run, "clip": row.clip}
    looks = [f"{r['look']['biome']}/{r['look']['lighting']}" for r in records]
    ext = _has_ext(raw, row.s)
    n = 27 if ext else 20
    texts = [raw.blocks[row.s // 4 + j]["prompt"] for j in range(n) if row.s // 4 + j in raw.blocks]
    scene = raw.info["scene"]
    wanted = {
        "clip": ClipId(scene["id"], raw.info["run"], row.s, scene["name"]).name,
        "family": raw.info["family"],
        "has_ext": ext,
        "look": looks[0],
        "ext_look": looks[81] if ext else None,
        "ext_look_change": ext and looks[80] != looks[81],
        "episode": records[0]["episode"],
        "camera_variant": records[0]["camera_variant"],
        "mirrored_world": records[0]["mirrored_world"],
        "n_blocks": n,
        "prompts": [(j, t) for j, t in enumerate(texts) if j == 0 or t != texts[j - 1]],
    }
    for name, value in wanted.items():
        if getattr(row, name) != value:
            found.add(f"row: {name} is {getattr(row, name)!r}, the source says {value!r}", **at)
    for i, r in enumerate(records):
        pose = np.array(r["camera"]["world_to_camera"], np.float64)
        said = (bool(meta["dead"][i]), str(meta["bot_mode"][i]))
        if said != (r["dead"], r["bot_mode"]) or not np.array_equal(meta["world_to_camera"][i], pose):
            found.add("meta: dead, bot_mode or world_to_camera differ from the json", frame=row.s + i, **at)
        mine = np.array([[*c["a"], *c["b"], c["radius"]] for c in r["capsules"]], np.float32).reshape(-1, 7)
        if not np.array_equal(meta["capsules"][i][: len(mine), :7], mine):
            found.add("meta: capsules differ from the json", frame=row.s + i, **at)


def _has_ext(raw: RawRun, s: int) -> bool:
    """The definition: 109 frames whole, episode and camera variant constant over them, blocks s//4+20..s//4+26 there."""
    if not all(raw.has(f, kind) for f in range(s, s + 109) for kind in ("jpg", "ids", "json")):
        return False
    records = [raw.record(f) for f in range(s, s + 109)]
    constant = len({(r["episode"], r["camera_variant"]) for r in records}) == 1
    return constant and all(s // 4 + j in raw.blocks for j in range(20, 27))
