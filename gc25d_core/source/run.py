"""One run, opened: frames, json, jpg and ids bytes, blocks. The interface that another recording format implements."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from gc25d_core.errors import Fault, SourceError
from gc25d_core.names import is_name
from gc25d_core.source.schema import Block, FrameRecord, RunInfo, block_decoder, parse_frame, run_decoder
from gc25d_core.source.tarindex import KINDS, TarIndex, member_name


class RunSource(Protocol):
    """What the rest of gc25d asks of a recording. All methods may be called from several processes at once."""

    info: RunInfo
    problems: list[Fault]
    """Deviations of the run as a whole: cut shards, unreadable lines of blocks.jsonl."""
    blocks: dict[int, Block]
    """Blocks by number; gaps are allowed."""

    def has(self, frame: int, kind: str) -> bool:
        """Whether the frame has a member of this kind (`jpg`, `ids`, `json`)."""

    def read(self, frame: int, kind: str) -> bytes:
        """The bytes of a member. Raises SourceError if there is none, OSError if the disk fails."""

    def record(self, frame: int) -> FrameRecord:
        """The checked json of a frame. Raises SourceError."""

    def member_hash(self, frame: int, kind: str) -> str:
        """Content hash of a member's bytes, cached."""

    def fault(self, kind: str, what: str, *, clip: str | None = None, frame: int | None = None,
              member: str | None = None, got: str | None = None, expected: str | None = None,
              fix: str | None = None) -> Fault:  # fmt: skip
        """A fault that names run, frame, member, shard and offset."""

    def missing(self, frames: Iterable[int]) -> list[tuple[int, str]]:
        """(frame, kind) of the members that are not there, or there more than once."""

    def twice(self, frame: int, kind: str) -> bool:
        """Whether the run holds more than one copy of this member."""

    def save_cache(self) -> None:
        """Keep what was learned (offsets, hashes) for the next opening."""

    def close(self) -> None:
        """Release file descriptors."""


class TarRun:
    """A run in the documented format: `run.json`, `blocks.jsonl`, tar shards."""

    def __init__(self, folder: Path, info: RunInfo, index: TarIndex) -> None:
        self.info = info
        self._folder = folder
        self._index = index
        self._block_problems: list[Fault] = []
        self.blocks = self._read_blocks()
        self.problems = [*index.problems(), *self._block_problems]

    def _read_blocks(self) -> dict[int, Block]:
        """Blocks by number. Lines that cannot be read, and second copies of a block, are in `problems`."""
        found: dict[int, Block] = {}
        broken: set[int] = set()
        try:
            lines = (self._folder / "blocks.jsonl").read_bytes().split(b"\n")
        except FileNotFoundError:
            self._block_fault("blocks_missing", "there is no blocks.jsonl", got="no file", fix="write one line a block")
            lines = []
        except OSError as e:
            self._block_fault(
                "blocks_unreadable",
                "blocks.jsonl cannot be read",
                got=str(e.strerror),
                fix="check what lies there: it must be a readable file",
            )
            lines = []
        width: int | None = None
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                j = block_decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
                self._block_fault("block_unreadable", f"line {number} of blocks.jsonl cannot be read", got=str(e))
                continue
            width = len(j.actions) if width is None else width
            if len(j.actions) != width:
                self._block_fault(
                    "block_width",
                    f"block {j.block} (line {number}) has another number of actions than the run's first line",
                    got=str(len(j.actions)),
                    expected=str(width),
                )
            elif j.block in found or j.block in broken:
                broken.add(j.block)
                found.pop(j.block, None)
                self._block_fault(
                    "block_twice", f"block {j.block} stands twice in blocks.jsonl (again in line {number})"
                )
            else:
                found[j.block] = Block(j.block, bytes(j.actions), j.prompt)
        return found

    def _block_fault(self, kind: str, what: str, *, got: str | None = None, expected: str | None = None,
                     fix: str | None = None) -> None:  # fmt: skip
        fix = fix or "mend that line; clips that need the block cannot be made until then"
        expected = expected or '{"block": int, "actions": [uint8 x A], "prompt": str}, each block once'
        self._block_problems.append(
            Fault(kind, what, self.info.run, member="blocks.jsonl", got=got, expected=expected, fix=fix)
        )

    def has(self, frame: int, kind: str) -> bool:
        name = member_name(frame, kind)
        return name in self._index.where and name not in self._index.duplicates

    def missing(self, frames: Iterable[int]) -> list[tuple[int, str]]:
        return [(f, k) for f in frames for k in KINDS if not self.has(f, k)]

    def twice(self, frame: int, kind: str) -> bool:
        return member_name(frame, kind) in self._index.duplicates

    def read(self, frame: int, kind: str) -> bytes:
        name = member_name(frame, kind)
        if name in self._index.duplicates:
            shards = ", ".join(self._index.duplicates[name])
            raise SourceError(
                self.fault(
                    "member_twice",
                    "the member stands in the run more than once",
                    frame=frame,
                    member=name,
                    got=f"copies in {shards}",
                    expected="one copy",
                    fix="remove the wrong copy",
                )
            )
        if name not in self._index.where:
            cut = [s for s in self._index.shards if s.problem is not None]
            hint = f"; shard {cut[0].name} is cut at byte {cut[0].cut_at}, it may have been there" if cut else ""
            raise SourceError(
                self.fault(
                    "member_missing",
                    f"the member is in no shard of the run{hint}",
                    frame=frame,
                    member=name,
                    got="nothing",
                    expected="one member in any shard",
                    fix="add the member, or remove the clip from clip_starts",
                )
            )
        return self._index.read(name)

    def record(self, frame: int) -> FrameRecord:
        name = member_name(frame, "json")
        data = self.read(frame, "json")
        try:
            record = parse_frame(data)
        except (ValueError, UnicodeDecodeError, RecursionError) as e:  # msgspec's errors are ValueErrors
            raise SourceError(
                self.fault(
                    "json_invalid",
                    "the frame's json deviates from the format",
                    frame=frame,
                    member=name,
                    got=str(e),
                    expected="the fields and types of docs/source-format.md",
                    fix="mend the recording's writer, or adapt gc25d_core/source/schema.py to your format",
                )
            ) from None
        if record.frame != frame:
            raise SourceError(
                self.fault(
                    "frame_number",
                    "the json names another frame than its member",
                    frame=frame,
                    member=name,
                    got=str(record.frame),
                    expected=str(frame),
                    fix="rename the member or mend the field `frame`",
                )
            )
        return record

    def member_hash(self, frame: int, kind: str) -> str:
        return self._index.hash(member_name(frame, kind))

    def fault(self, kind: str, what: str, *, clip: str | None = None, frame: int | None = None,
              member: str | None = None, got: str | None = None, expected: str | None = None,
              fix: str | None = None) -> Fault:  # fmt: skip
        shard = offset = None
        if member is not None and member in self._index.where:
            s = self._index.shards[self._index.where[member]]
            shard, offset = s.name, s.members[member][0]
        return Fault(kind, what, self.info.run, clip, frame, member, shard, offset, got, expected, fix)

    def save_cache(self) -> None:
        self._index.save_cache()

    def close(self) -> None:
        """Nothing is held open between reads."""


def open_run(src: Path, run: str, *, cache: Path | None) -> RunSource:
    """Open `<src>/<run>`. `cache` is a folder for tar indexes and member hashes (None: keep nothing).

    Raises:
        SourceError: no such run, or its run.json or folder is unusable. Everything finer is a fault of a clip.
    """
    folder = src / run
    info = read_run_json(folder, run)
    try:
        index = TarIndex.load(folder, run=run, cache=None if cache is None else cache / "source" / f"{run}.msgpack")
    except OSError as e:
        raise SourceError(
            Fault(
                "run_unreadable",
                f"the run's shards cannot be read: {e}",
                run,
                fix="check permissions and links of the folder",
            )
        ) from e
    if not index.shards:
        raise SourceError(
            Fault(
                "run_empty",
                "the run has no shard",
                run,
                got="no shard-*.tar",
                expected="shard-000000.tar, ...",
                fix="copy the shards, or remove the folder",
            )
        )
    return TarRun(folder, info, index)


def read_run_json(folder: Path, run: str) -> RunInfo:
    """`run.json` of a run, checked. Raises SourceError."""

    def bad(kind: str, what: str, **more: str) -> SourceError:
        return SourceError(Fault(kind, what, run, member="run.json", **more))  # type: ignore[arg-type]

    if not is_name(run):
        raise SourceError(
            Fault(
                "run_name",
                "the run's name is not allowed",
                run,
                got=repr(run),
                expected="1 to 64 characters of A-Z a-z 0-9 _ -",
                fix="rename the folder and `run` in run.json",
            )
        )
    if not folder.is_dir():
        raise SourceError(
            Fault(
                "run_unknown",
                f"there is no such run below {folder.parent}",
                run,
                got="no folder",
                expected="a folder with run.json, blocks.jsonl and shards",
                fix="check the name and the source setting",
            )
        )
    try:
        j = run_decoder.decode((folder / "run.json").read_bytes())
    except FileNotFoundError:
        raise bad("run_json_missing", "the run has no run.json", fix="write it (docs/source-format.md)") from None
    except OSError as e:
        raise bad("run_unreadable", f"run.json cannot be read: {e}", fix="check permissions") from e
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise bad(
            "run_json_invalid",
            "run.json deviates from the format",
            got=str(e),
            expected="the fields of docs/source-format.md",
            fix="mend run.json",
        ) from None
    if j.run != run:
        raise bad(
            "run_json_name",
            "run.json names another run than its folder",
            got=j.run,
            expected=run,
            fix="rename the folder or mend the field",
        )
    return RunInfo(j.run, j.family, j.fps, j.scene.id, j.scene.name, tuple(j.clip_starts), j.image_size)


__all__ = ["RunSource", "TarRun", "open_run", "read_run_json"]
