"""A real Redis, as the tests of the gateway have it."""

from tests.gateway.conftest import keys, redis_url

__all__ = ["keys", "redis_url"]
