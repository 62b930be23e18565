"""REST as tools of others see it: `make test-rest`."""
