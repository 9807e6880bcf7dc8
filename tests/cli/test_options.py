"""Settings: from options and environment, every mistake at once, and as environment again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gc25d_assets.cli import main as entry
from gc25d_assets.cli.options import flags_of, open_project, resolve_settings
from gc25d_assets.settings_env import settings_from
from gc25d_core.errors import SettingsError

MANY = {"GC25D_SIZE": "wide", "GC25D_DEVICE": "tpu", "GC25D_WORKERS": "many", "GC25D_PRECISION": "rough"}


def test_every_mistake_is_in_one_message() -> None:
    with pytest.raises(SettingsError) as caught:
        resolve_settings(MANY)
    text = str(caught.value)
    for word in ("source", "output", "wide", "tpu", "many", "rough"):
        assert word in text
    assert "--src or GC25D_SRC" in text


def test_mistakes_of_options_and_of_the_environment_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GC25D_SEATS", "three")
    with pytest.raises(SettingsError, match=r"(?s)GC25D_SEATS='three'.*'tpu'"):
        resolve_settings({"GC25D_DEVICE": "tpu"})


@pytest.mark.parametrize("command", ["build", "up", "verify", "pool"])
def test_the_exit_code_is_2_and_the_message_no_traceback(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gc25d", command, "--size", "wide", "--device", "tpu"])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert "'tpu'" in printed
    assert "wide" in printed
    assert "Traceback" not in printed


def test_an_option_wins_over_its_variable(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GC25D_SIZE", "832x480")
    monkeypatch.setenv("GC25D_OUT", str(tmp_path / "a"))
    settings = resolve_settings({"GC25D_SRC": str(source), "GC25D_SIZE": "64x32"})
    assert settings.size == (64, 32)
    assert settings.out == tmp_path / "a"


def test_dagster_processes_are_given_the_same_settings(source: Path, tmp_path: Path) -> None:
    given = {"GC25D_SRC": str(source), "GC25D_OUT": str(tmp_path / "ds"), "GC25D_SIZE": "64x32", "GC25D_WORKERS": "3"}
    project = open_project(given)
    assert settings_from(project.env) == project.settings


def test_the_settings_are_printed(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_project({"GC25D_SRC": str(source), "GC25D_OUT": str(tmp_path / "ds"), "GC25D_SIZE": "64x32"})
    printed = capsys.readouterr().out
    for word in (str(source), str(tmp_path / "ds"), "vae demo", "precision exact", "size 64x32", ".dagster"):
        assert word in printed


def test_hints_repeat_the_options_quoted() -> None:
    assert flags_of({"GC25D_SRC": "/a b", "GC25D_SIZE": "64x32"}) == " --src '/a b' --size 64x32"


def test_what_a_data_set_was_made_with_need_not_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    first = {"GC25D_SRC": str(tmp_path / "src"), "GC25D_OUT": str(tmp_path / "out"), "GC25D_SIZE": "64x32"}
    resolve_settings(first).check_prep_args()
    again = resolve_settings({"GC25D_OUT": first["GC25D_OUT"]})
    assert (again.size, again.src) == ((64, 32), (tmp_path / "src").resolve())
    assert resolve_settings({"GC25D_OUT": first["GC25D_OUT"], "GC25D_SIZE": "96x48"}).size == (96, 48), (
        "a given one wins"
    )
    (tmp_path / "out" / "prep_args.json").write_text("{broken")
    with pytest.raises(SettingsError, match="source: not set"):
        resolve_settings({"GC25D_OUT": first["GC25D_OUT"]})
