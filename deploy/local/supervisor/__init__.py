"""Own a home's servers, gateways and workers in one detached process, for as long as somebody holds the stack."""
