"""Claim jobs, run their commands and settle them: the answering half of the queue. Knows no memories."""
