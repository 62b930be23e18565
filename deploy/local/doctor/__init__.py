"""Check this machine for `engramq doctor`, whether or not anything runs, and mend what can be mended."""
