"""Texts to vectors: the models, and what waits for them."""
