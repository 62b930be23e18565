"""The Python client, in conversation alone and over a real pipeline."""
