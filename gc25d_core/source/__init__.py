"""Recordings: what is read. Everything that knows the format's names lives in this package.

If your recordings differ from the documented format, this is the package to adapt: implement `RunSource`
(see `gc25d_core/source/run.py`) for your format and return it from `open_run`.
"""

from gc25d_core.source.catalog import bad_run_folders, list_runs, run_digest
from gc25d_core.source.run import RunSource, open_run
from gc25d_core.source.schema import Block, FrameRecord, RunInfo

__all__ = ["Block", "FrameRecord", "RunInfo", "RunSource", "bad_run_folders", "list_runs", "open_run", "run_digest"]
