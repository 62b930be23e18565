"""Turn texts into vectors: the models, and the batches that wait for them."""
