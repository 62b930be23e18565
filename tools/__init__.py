"""What makes and measures the shipped models, and loads databases for benchmarks. Not in the wheel."""
