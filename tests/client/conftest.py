"""A real Redis, as the tests of the gateway have it."""

from tests.gateway.conftest import keys, redis_url, socket_path

__all__ = ["keys", "redis_url", "socket_path"]
