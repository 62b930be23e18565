"""Install, start and operate engramq: its command, a home's stack, imports, entries in clients."""
