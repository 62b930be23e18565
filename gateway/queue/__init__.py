"""Send commands out in jobs, and read their answers from one reply list: the asking half of the queue."""
