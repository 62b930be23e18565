"""Whose a bearer token is."""
