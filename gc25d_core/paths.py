"""Where everything of one data set lies, under `<out>/` (DESIGN: outputs)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KINDS = ("latents", "cond", "cond_ext", "meta")
"""The per-clip outputs."""
SUFFIX = {"latents": ".pt", "cond": ".npz", "cond_ext": ".npz", "meta": ".npz"}


@dataclass(frozen=True, slots=True)
class Paths:
    """The layout below `out`. Pure names: nothing is created or read here."""

    out: Path

    def clip(self, kind: str, clip: str) -> Path:
        """`<kind>/<clip>.pt|npz`."""
        return self.out / kind / f"{clip}{SUFFIX[kind]}"

    def latents(self, clip: str) -> Path:
        return self.clip("latents", clip)

    def cond(self, clip: str) -> Path:
        return self.clip("cond", clip)

    def cond_ext(self, clip: str) -> Path:
        return self.clip("cond_ext", clip)

    def meta(self, clip: str) -> Path:
        return self.clip("meta", clip)

    @property
    def index(self) -> Path:
        return self.out / "index"

    def plan(self, run: str) -> Path:
        return self.index / "plan" / f"{run}.jsonl"

    def rows(self, run: str) -> Path:
        return self.index / "rows" / f"{run}.jsonl"

    def faults(self, run: str, step: str) -> Path:
        """Faults that one step (plan, conditions, latents) found in one run."""
        return self.index / "faults" / f"{run}.{step}.jsonl"

    @property
    def clips_jsonl(self) -> Path:
        return self.index / "clips.jsonl"

    @property
    def clips_parquet(self) -> Path:
        return self.index / "clips.parquet"

    @property
    def faults_jsonl(self) -> Path:
        return self.index / "faults.jsonl"

    @property
    def accepted_faults(self) -> Path:
        return self.index / "accepted_faults.jsonl"

    @property
    def runs_json(self) -> Path:
        return self.index / "runs.json"

    @property
    def prep_args(self) -> Path:
        return self.out / "prep_args.json"

    @property
    def verify_report(self) -> Path:
        return self.out / "verify_report.json"

    @property
    def look_change(self) -> Path:
        return self.out / "look_change.json"

    @property
    def dmd_pool(self) -> Path:
        return self.out / "dmd_pool.jsonl"

    @property
    def pool_policy(self) -> Path:
        return self.out / "pool_policy.json"

    @property
    def ready(self) -> Path:
        return self.out / "READY"

    @property
    def locks(self) -> Path:
        """Lock files; local to a host, never unlinked."""
        return self.out / ".locks"

    @property
    def cache(self) -> Path:
        """Tar indexes, member hashes, checkpoint hashes; may be deleted at any time."""
        return self.out / ".cache"
