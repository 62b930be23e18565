"""The callers over HTTP: bearer tokens of our own, JWTs of an identity provider, and the answers to bad ones."""
