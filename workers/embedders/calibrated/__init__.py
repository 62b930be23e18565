"""How sure a lookup by query may be of what it found: cosines mean different things with different models."""
