"""A home saved in one file while it is used, and brought back from it."""
