"""Publish and read every file of a data set."""
