"""The page for people at /ui: the same calls as agents make, shown."""
