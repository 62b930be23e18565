"""The five sectors: told of memories by a small model, and how each fades."""
