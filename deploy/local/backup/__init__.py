"""Save a home in one file while it is used, and bring it back from that file."""
