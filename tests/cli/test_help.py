"""Help reads well and loads nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from gc25d_assets.cli.main import gc25d

COMMANDS = ("demo", "synth", "build", "up", "verify", "audit", "pool", "accept", "check-source", "bench")
LOADED = """
import json, sys
from click.testing import CliRunner
from gc25d_assets.cli.main import gc25d
result = CliRunner().invoke(gc25d, sys.argv[1:], prog_name="gc25d")
assert result.exit_code == 0, result.output
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {"dagster", "torch", "numpy", "numba", "cv2", "rich", "diffsynth", "psutil"}


@pytest.mark.parametrize("args", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *args], capture_output=True, text=True, check=True, timeout=60)
    assert not HEAVY & set(json.loads(done.stdout))


def test_help_names_every_command_with_what_it_does() -> None:
    text = CliRunner().invoke(gc25d, ["--help"]).output
    for name in COMMANDS:
        assert f"  {name} " in text
    assert "Exit codes" in text


@pytest.mark.parametrize("name", ["build", "up", "verify", "audit", "pool", "accept"])
def test_every_setting_is_an_option_and_names_its_variable(name: str) -> None:
    text = CliRunner().invoke(gc25d, [name, "--help"], terminal_width=110).output
    for flag in ("src", "out", "vae", "device", "precision", "size", "workers"):
        assert f"--{flag} " in text
        assert f"GC25D_{flag.upper()}" in text


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(gc25d, ["biuld"])
    assert result.exit_code == 2
    assert "No such command" in result.output
