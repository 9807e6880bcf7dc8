"""Becomes a server that cannot outlive its parent: `python -m gc25d_assets.cli.child PARENT_PID COMMAND...`.

The kernel kills this process when the thread that started it ends, and the tie survives the exec. `subprocess` has no
safe way to do that between fork and exec, hence a program of its own.
"""

from __future__ import annotations

import os
import sys

from gc25d_assets.process import die_with_parent


def main(argv: list[str]) -> None:
    die_with_parent(int(argv[0]))
    os.execvp(argv[1], argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
