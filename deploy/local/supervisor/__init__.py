"""Own a home's servers, gateways and workers in one detached process, for as long as a lease wants them."""
