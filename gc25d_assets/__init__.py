"""The Dagster side of gc25d: settings from the environment, partitions, assets, checks, automation, command line.

It depends on `gc25d_core`, never the other way round. Importing this package imports nothing else.
"""
