"""Metrics: what is told, and that alerts and dashboard ask for nothing else."""
