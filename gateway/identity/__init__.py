"""Authenticate the callers over HTTP: by bearer tokens of our own, or by JWTs of an identity provider."""
