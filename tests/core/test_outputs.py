"""Publish and read: whole files only, nothing pickled is trusted, every flipped bit is seen."""

import errno
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from gc25d_core.errors import OutputError, SystemFault
from gc25d_core.outputs import publish as pub
from gc25d_core.outputs.content import content_hash
from gc25d_core.outputs.files import read_cond, read_latents, read_provenance
from gc25d_core.outputs.npz import read_npz, write_npz
from gc25d_core.outputs.pt import read_pt
from gc25d_core.outputs.ready import building, remove_ready, write_ready


def cond_bytes(parts, provenance=None):
    buf = io.BytesIO()
    write_npz(buf, {"parts": parts}, provenance or {"fingerprint": "f"})
    return buf.getvalue()


def latents_value(**change):
    value = {
        "latent": torch.randn(48, 21, 2, 4).to(torch.bfloat16),
        "actions_block": torch.zeros(27, 3, dtype=torch.uint8),
        "frames": torch.arange(81, dtype=torch.int32),
        "provenance": {"fingerprint": "f", "n": 1},
    }
    return {**value, **change}


def test_npz_is_what_numpy_reads_without_pickle(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "parts": rng.integers(0, 22, (81, 32, 64)).astype(np.uint8), "mode": np.array(["walk", "a much longer one"]),
        "nan": np.array([[np.nan, 1.5]], np.float32), "flag": np.array([True, False]), "text": np.array("x"), "none": np.zeros((0, 8)),
    }  # fmt: skip
    path = tmp_path / "a.npz"
    with open(path, "wb") as f:
        write_npz(f, arrays, {"fingerprint": "abc"})
    with np.load(path, allow_pickle=False) as z:
        for name, array in arrays.items():
            np.testing.assert_array_equal(z[name], array)
            assert z[name].dtype == array.dtype and z[name].shape == array.shape
        assert json.loads(str(z["provenance"])) == {"fingerprint": "abc"}
    back, provenance = read_npz(path)
    assert provenance == {"fingerprint": "abc"} and set(back) == set(arrays)
    assert zipfile.ZipFile(path).testzip() is None


def test_equal_content_gives_equal_bytes():
    parts = np.ones((81, 16, 16), np.uint8)
    assert cond_bytes(parts) == cond_bytes(parts.copy())


def test_a_flipped_bit_anywhere_in_an_npz_is_seen(tmp_path):
    parts = np.random.default_rng(1).integers(0, 7, (81, 16, 16)).astype(np.uint8)
    good = cond_bytes(parts)
    path = tmp_path / "c.npz"
    path.write_bytes(good)
    want = read_cond(path).content_hash
    unseen = []
    for at in range(0, len(good), max(1, len(good) // 300)):
        bad = bytearray(good)
        bad[at] ^= 1 << (at % 8)
        path.write_bytes(bad)
        try:
            found = read_cond(path)
        except OutputError:
            continue
        if found.content_hash != want:
            continue
        unseen.append(at)
        # what is not seen may only be a zip header field that does not change what is read
        np.testing.assert_array_equal(found.parts, parts)
    assert len(unseen) < 20


def test_the_content_hash_covers_name_dtype_shape_and_bytes():
    a = np.arange(6, dtype=np.int32)
    seen = {
        content_hash({"x": a}), content_hash({"y": a}), content_hash({"x": a.astype(np.int64)}),
        content_hash({"x": a.reshape(2, 3)}), content_hash({"x": a + 1}), content_hash({"x": a, "z": a[:0]}),
    }  # fmt: skip
    assert len(seen) == 6
    assert content_hash({"x": a[::2]}) == content_hash({"x": a[::2].copy()})


def test_a_latents_file_reads_the_same_with_and_without_torch(tmp_path):
    value = latents_value()
    path = tmp_path / "l.pt"
    torch.save(value, path)
    assert set(torch.load(path, weights_only=True)) == set(value)
    found = read_latents(path)
    assert torch.equal(found.latent(), value["latent"])
    assert found.latent_float().tolist() == value["latent"].float().tolist()
    assert found.actions_block.shape == (27, 3) and found.frames.tolist() == list(range(81))
    assert read_provenance(path) == {"fingerprint": "f", "n": 1}


def test_reading_a_latents_file_does_not_import_torch(tmp_path):
    path = tmp_path / "l.pt"
    torch.save(latents_value(), path)
    code = f"from gc25d_core.outputs.files import read_latents; from pathlib import Path; read_latents(Path({str(path)!r})).content_hash; import sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "change",
    [
        {"latent": torch.zeros(48, 21, 2, 4)},
        {"latent": torch.zeros(48, 28, 2, 4, dtype=torch.bfloat16)},
        {"latent": torch.zeros(48, 22, 2, 4, dtype=torch.bfloat16)[:, :21]},
        {"actions_block": torch.zeros(21, 3, dtype=torch.uint8)},
        {"frames": torch.arange(81)},
        {"extra": 1},
        {"provenance": "text"},
    ],
    ids=["float32", "28 cells", "a view", "21 blocks", "int64 frames", "a stranger", "no dict"],
)
def test_a_latents_file_of_another_form_is_refused(tmp_path, change):
    path = tmp_path / "l.pt"
    torch.save(latents_value(**change), path)
    with pytest.raises(OutputError):
        read_latents(path)


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/owned",)

    path = tmp_path / "l.pt"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("l/data.pkl", pickle.dumps({"latent": Evil()}))
    with pytest.raises(OutputError, match="not allowed"):
        read_pt(path)
    assert not (tmp_path / "owned").exists()


def test_publish_leaves_the_whole_file_and_nothing_else(tmp_path):
    assert pub.publish_bytes(tmp_path / "sub" / "a.json", b"123") == 3
    assert os.listdir(tmp_path / "sub") == ["a.json"]


FAILS = {
    "write": lambda m: None,
    "fsync": lambda m: m.setattr(os, "fsync", full),
    "replace": lambda m: m.setattr(os, "replace", full),
}


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", FAILS)
def test_a_write_that_fails_keeps_the_old_file_and_leaves_no_temporary(tmp_path, monkeypatch, step):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    FAILS[step](monkeypatch)

    def write(f):
        f.write(b"half")
        if step == "write":
            full()

    with pytest.raises(SystemFault, match="No space left") as e:
        pub.publish(path, write)
    monkeypatch.undo()
    assert str(path) in str(e.value)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("at", ["write", "flush", "fsync", "replace"])
def test_a_writer_killed_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path, at):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    code = f"""
import os, signal
from pathlib import Path
from gc25d_core.outputs import publish as p
die = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
if {at!r} in ("fsync", "replace"): setattr(p.os, {at!r}, die)
def write(f):
    f.write(b"new" * 1000)
    if {at!r} == "write": die()
    if {at!r} == "flush": f.flush(); die()
p.publish(Path({str(path)!r}), write)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9
    assert path.read_bytes() == b"old"
    left = [n for n in os.listdir(tmp_path) if n != "a"]
    assert len(left) == 1 and pub.is_temporary(left[0]) and pub.is_provably_dead(left[0])


def test_a_living_writers_temporary_is_not_dead(tmp_path):
    name = pub.temporary_name(tmp_path / "x.pt").name
    assert pub.is_temporary(name) and not pub.is_provably_dead(name)
    assert not pub.is_temporary("01_valley__R10_s1__000000.pt")


def test_ready_goes_before_the_first_write_and_not_for_a_no_op(settings_for):
    s = settings_for()
    assert write_ready(s, {"n": 1}, lambda: None) is None
    path = s.out / "index" / "plan" / "x.jsonl"
    with building(s) as build:
        assert build.publish_changed(path, b"a")
    assert not s.paths.ready.exists()
    assert write_ready(s, {"n": 1}, lambda: None) is None
    with building(s) as build:
        assert not build.publish_changed(path, b"a")
        assert not build.unlink(s.out / "nothing")
        assert s.paths.ready.exists()
        build.publish(path, lambda f: pub.void(f.write(b"b")))
        assert not s.paths.ready.exists()


def test_ready_is_not_written_while_a_builder_writes_or_when_something_changed(settings_for):
    s = settings_for()
    with building(s), building(s):
        assert "a build is writing" in write_ready(s, {}, lambda: None)
    assert write_ready(s, {}, lambda: "rows changed") == "rows changed"
    assert not s.paths.ready.exists() and not remove_ready(s)


def test_a_folder_that_cannot_be_written_is_a_clear_error(settings_for, tmp_path):
    s = settings_for()
    Path(s.out).mkdir()
    (s.out / ".locks").write_text("in the way")
    with pytest.raises(SystemFault, match="cannot be written"), building(s):
        pass
