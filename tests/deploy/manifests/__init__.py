"""What deploy/ ships for operators, read by the validators of others; `make test-deploy` installs these."""
