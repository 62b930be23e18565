"""Make and measure the shipped models, and load databases for benchmarks. Not in the wheel."""
