"""Say whose a bearer token is, and make and revoke tokens."""
