"""Change the product a little, one place at a time, and name the changes that no test notices: `make mutants`."""
