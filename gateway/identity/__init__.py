"""Who comes over HTTP: bearer tokens of our own and JWTs of an identity provider, and the answers to neither."""
