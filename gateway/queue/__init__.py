"""The gateway's half of the queue: commands go out in jobs, answers come back over one reply list."""
