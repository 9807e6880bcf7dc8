"""Benchmarks: speed and memory as ratios measured in one run, never as timed tests."""
