"""`engramq doctor` and `engramq status`: each failure caused for real, named with its mend."""
