"""A real Redis, as the tests of the gateway have it."""

from tests.gateway.conftest import anyio_backend, keys, redis_url

__all__ = ["anyio_backend", "keys", "redis_url"]
