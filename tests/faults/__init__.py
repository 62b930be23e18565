"""Faults caused for real under load, and a count of what they lost: `python -m tests.faults --long`."""
