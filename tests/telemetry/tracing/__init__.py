"""Traces, as a collector receives them, and the names in log lines."""
