"""`engramq doctor`: what can be looked at from this machine, whether or not anything runs, and mended."""
