"""One detached process per ENGRAMQ_HOME that owns its servers, gateways and workers, and the leases that keep them."""
