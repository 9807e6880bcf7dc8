"""A writer that is killed leaves whole runs or none under their names, and no worker behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from gc25d_core.synth import plan_source, write_source

SCRIPT = """
import sys
from gc25d_core.synth import write_source
if __name__ == "__main__":
    write_source(sys.argv[1], runs=8, clips=1, size=(96, 48), seed=1, workers=2)
"""


def test_a_killed_writer_leaves_whole_runs_and_no_workers(tmp_path: Path, read) -> None:
    script, root = tmp_path / "write.py", tmp_path / "source"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
    writer = subprocess.Popen([sys.executable, str(script), str(root)], env={**os.environ, "PYTHONPATH": path})
    try:
        while not (root / "R10_s1501").exists():
            assert writer.poll() is None, "the writer ended before its first run was there"
            time.sleep(0.02)
        workers = psutil.Process(writer.pid).children(recursive=True)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert workers
    _, alive = psutil.wait_procs(workers, timeout=20)
    for worker in alive:
        worker.kill()
    assert not alive, "workers end with their parent"

    plans = {plan.run: plan for plan in plan_source(runs=8, clips=1, size=(96, 48), seed=1)}
    finished = [folder for folder in root.iterdir() if not folder.name.startswith(".")]
    assert 1 <= len(finished) < 8
    for folder in finished:
        assert len(read(folder).members) == 3 * sum(clip.n_frames for clip in plans[folder.name].clips)

    write_source(root, runs=8, clips=1, size=(96, 48), seed=1, workers=1, resume=True)
    assert sorted(folder.name for folder in root.iterdir()) == sorted(plans)
