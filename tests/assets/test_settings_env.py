"""The environment is read in one place, once, with every mistake in one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from gc25d_assets.settings_env import VARIABLES, env_of, given_from_env, settings, settings_from
from gc25d_core.errors import SettingsError


def test_every_field_goes_there_and_back() -> None:
    given = {
        "src": Path("/src"), "out": Path("/out"), "vae": "demo", "device": "cuda", "precision": "fast", "size": "416x240",
        "workers": 3, "cpu_threads": 2, "seats": 4, "spot_clips": 5, "buried_player_frac": 0.4,
    }  # fmt: skip
    assert set(given) == {v.field for v in VARIABLES}
    assert given_from_env(env_of(given)) == given
    assert env_of({"size": (416, 240)}) == {"GC25D_SIZE": "416x240"}


def test_all_mistakes_are_in_one_message() -> None:
    with pytest.raises(SettingsError) as caught:
        given_from_env({"GC25D_WORKERS": "many", "GC25D_SEATS": "2.5"})
    assert len(caught.value.mistakes) == 2
    with pytest.raises(SettingsError) as caught:
        settings_from({})
    assert ["GC25D_SRC" in caught.value.mistakes[0], "GC25D_OUT" in caught.value.mistakes[1]] == [True, True]


def test_relative_paths_mean_the_same_in_every_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert given_from_env({"GC25D_OUT": "data"})["out"] == tmp_path / "data"


def test_they_are_resolved_once_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        settings()
    monkeypatch.setenv("GC25D_SRC", str(tmp_path))
    monkeypatch.setenv("GC25D_OUT", str(tmp_path / "out"))
    first = settings()
    monkeypatch.setenv("GC25D_OUT", str(tmp_path / "elsewhere"))
    assert settings() is first
