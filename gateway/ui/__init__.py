"""Show people what is kept, on the page at /ui, by the same calls as agents make."""
