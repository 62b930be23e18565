"""The wheel as users install it. Needs PyPI and minutes: `make test-package`, not `make test`."""
