"""Where each member of a run lies: one header scan per shard, then random access with `os.pread`.

The scan and the content hashes taken at first read are cached, keyed by shard name, size and mtime_ns: a touched shard is
scanned and hashed again, nothing more.
"""

from __future__ import annotations

import fcntl
import os
import re
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gc25d_core.errors import Fault
from gc25d_core.outputs.content import bytes_hash
from gc25d_core.outputs.publish import publish_bytes

KINDS = ("jpg", "ids", "json")
SUFFIXES = {"jpg": ".jpg", "ids": ".ids.png", "json": ".json"}
_KIND = {v: k for k, v in SUFFIXES.items()}
_MEMBER = re.compile(r"(?:\./)?(\d{6,10})(\.jpg|\.ids\.png|\.json)\Z")
_SHARD = re.compile(r"shard-\d{6,}\.tar\Z")
_BLOCK = 512
_CACHE_VERSION = 1


def member_name(frame: int, kind: str) -> str:
    """`000123.ids.png`; more digits past 999999."""
    return f"{frame:06d}{SUFFIXES[kind]}"


class Shard(msgspec.Struct):
    """One scanned shard."""

    name: str
    size: int
    mtime_ns: int
    members: dict[str, tuple[int, int]]
    """Member name -> (offset of its bytes, their number)."""
    cut_at: int | None = None
    """Offset at which the archive ends too early, None if it is whole."""
    problem: str | None = None
    duplicates: list[str] = []
    strangers: int = 0
    """Members that are no frame's: ignored."""
    hashes: dict[str, str] = {}
    """Member name -> xxh3_128 of its bytes, as far as they were read."""

    @property
    def key(self) -> tuple[str, int, int]:
        return self.name, self.size, self.mtime_ns


class _Cache(msgspec.Struct):
    version: int
    shards: list[Shard]


def shard_paths(folder: Path) -> list[Path]:
    """The shards of a run, by number."""
    found = [p for p in folder.iterdir() if _SHARD.match(p.name)]
    return sorted(found, key=lambda p: (int(p.name[6:-4]), p.name))


def scan(path: Path) -> Shard:
    """Read the headers of one shard. A cut or damaged one keeps its whole members and says where it ends."""
    with open(path, "rb") as f:
        stat = os.fstat(f.fileno())
        shard = Shard(path.name, stat.st_size, stat.st_mtime_ns, {})
        end = 0
        try:
            with tarfile.open(fileobj=f, mode="r:") as tar:
                for info in tar:
                    stop = info.offset_data + (info.size if info.isreg() else 0)
                    if stop > stat.st_size:
                        shard.cut_at, shard.problem = stat.st_size, f"the archive is cut inside member {info.name!r}"
                        break
                    end = -(-stop // _BLOCK) * _BLOCK
                    _note(shard, info)
        except (tarfile.TarError, ValueError, OSError, UnicodeError) as e:
            shard.cut_at = max(0, min(end, stat.st_size))
            shard.problem = f"the archive cannot be read on ({e})"
        if shard.problem is None:
            f.seek(end)
            tail = f.read(2 * _BLOCK)
            if any(tail[:_BLOCK]):
                shard.cut_at, shard.problem = end, "no valid header where the next member or the end should be"
            elif len(tail) < _BLOCK:
                shard.cut_at, shard.problem = stat.st_size, "the archive has no end-of-archive blocks: it is cut"
        return shard


def _note(shard: Shard, info: tarfile.TarInfo) -> None:
    m = _MEMBER.match(info.name)
    if not info.isreg() or not m:
        shard.strangers += not info.isdir()
        return
    name = f"{int(m.group(1)):06d}{m.group(2)}"
    if name != info.name.removeprefix("./"):
        shard.strangers += 1  # 0000012.jpg is not frame 12: two spellings of one frame would hide each other
    elif name in shard.members:
        shard.duplicates.append(name)
    else:
        shard.members[name] = (info.offset_data, info.size)


@dataclass
class TarIndex:
    """All members of a run's shards. Open it with `TarIndex.load`; it is cheap to copy to workers."""

    folder: Path
    run: str
    cache: Path | None
    shards: list[Shard]
    where: dict[str, int] = field(default_factory=dict)
    """Member name -> position of its shard in `shards`."""
    duplicates: dict[str, list[str]] = field(default_factory=dict)
    """Member name -> shards that hold it, where more than one copy exists."""
    _dirty: bool = False

    @classmethod
    def load(cls, folder: Path, *, run: str, cache: Path | None) -> TarIndex:
        """Scan the shards of `folder`, those that the cache does not know yet."""
        known = {s.key: s for s in _read_cache(cache)}
        shards, dirty = [], False
        for path in shard_paths(folder):
            try:
                stat = path.stat()
                shard = known.get((path.name, stat.st_size, stat.st_mtime_ns))
                if shard is None:
                    shard, dirty = scan(path), True
            except OSError as e:  # a folder, a dangling link, no permission: the other shards are still good
                shard = Shard(path.name, -1, -1, {}, cut_at=0, problem=f"the shard cannot be opened ({e.strerror})")
            shards.append(shard)
        index = cls(folder, run, cache, shards, _dirty=dirty)
        for i, shard in enumerate(shards):
            for name in shard.duplicates:
                index.duplicates.setdefault(name, []).append(shard.name)
            for name in shard.members:
                if name in index.where:
                    first = shards[index.where[name]].name
                    index.duplicates.setdefault(name, [first]).append(shard.name)
                else:
                    index.where[name] = i
        return index

    def problems(self) -> list[Fault]:
        """A fault for each shard that ends too early."""
        return [
            Fault(
                "shard_cut", s.problem, self.run, shard=s.name, offset=s.cut_at,
                got=f"{s.size} bytes, {len(s.members)} whole members", expected="a whole tar archive",
                fix="copy the shard again, or pack the run again",
            )
            for s in self.shards
            if s.problem is not None
        ]  # fmt: skip

    def read(self, name: str) -> bytes:
        """The bytes of a member; their hash is noted.

        Raises:
            KeyError: no such member.
            OSError: the shard is shorter than it was when scanned, or cannot be read.
        """
        shard = self.shards[self.where[name]]
        offset, size = shard.members[name]
        data = self._pread(shard, size, offset)
        if name not in shard.hashes:
            shard.hashes[name] = bytes_hash(data)
            self._dirty = True
        return data

    def hash(self, name: str) -> str:
        """xxh3_128 of a member's bytes, from the cache where they were read before."""
        found = self.shards[self.where[name]].hashes.get(name)
        if found is None:
            self.read(name)
            found = self.shards[self.where[name]].hashes[name]
        return found

    def _pread(self, shard: Shard, size: int, offset: int) -> bytes:
        """One member's bytes. The shard is opened for each read: 15 us, and nothing to share between threads."""
        fd = os.open(self.folder / shard.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            stat = os.fstat(fd)
            if (stat.st_size, stat.st_mtime_ns) != (shard.size, shard.mtime_ns):
                raise OSError(
                    f"shard {shard.name} of run {self.run} changed while the run was read; run the build again"
                )
            data = os.pread(fd, size, offset)
            while len(data) < size:
                more = os.pread(fd, size - len(data), offset + len(data))
                if not more:
                    raise OSError(
                        f"shard {shard.name} of run {self.run} ended at byte {offset + len(data)} while it was read; run the build again"
                    )
                data += more
            return data
        finally:
            os.close(fd)

    def save_cache(self) -> None:
        """Write scan and hashes to the cache, merged with what others wrote since; nothing where nothing is new."""
        if self.cache is None or not self._dirty:
            return
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.cache.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            others = {s.key: s for s in _read_cache(self.cache)}
            for shard in self.shards:
                if shard.key in others:
                    shard.hashes = {**others[shard.key].hashes, **shard.hashes}
            publish_bytes(self.cache, msgspec.msgpack.encode(_Cache(_CACHE_VERSION, self.shards)))
            self._dirty = False
        finally:
            os.close(lock)


def _read_cache(path: Path | None) -> list[Shard]:
    if path is None:
        return []
    try:
        cache = msgspec.msgpack.decode(path.read_bytes(), type=_Cache)
    except (FileNotFoundError, msgspec.MsgspecError):
        return []  # a cache may be deleted or damaged at any time; the shards are scanned again
    return cache.shards if cache.version == _CACHE_VERSION else []
