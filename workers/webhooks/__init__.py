"""Send events to servers of others, signed, at least once."""
