"""REST as it comes over the wire."""
