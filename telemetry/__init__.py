"""Traces, metrics and health of gateways and workers, by the libraries that operators know."""
