"""Traces and metrics: what gateways and workers tell of themselves, by the libraries that operators know."""
