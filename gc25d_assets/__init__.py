"""The Dagster side of gc25d: settings from the environment, partitions, assets, checks, automation, command line.

It depends on `gc25d_core`, never the other way round. Importing this package imports nothing else.
"""

import os

# Waiting OpenMP threads sleep instead of spinning. With two torch threads on two busy cores an encode is otherwise twenty times
# slower (0.5 s against 10 s); the bits are the same. It counts only before torch is loaded, so it stands where every process
# of ours begins.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
