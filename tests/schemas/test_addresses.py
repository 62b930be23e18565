"""What is shown of a server's address."""

import pytest

from engramq.schemas.setting_values import without_password


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ada:p%40w@db/engramq", "postgresql://ada:***@db/engramq"),
        ("postgresql://ada:p@w:x@db:5432/engramq", "postgresql://ada:***@db:5432/engramq"),
        ("postgresql://db/e?user=ada&password=pw&sslmode=require", "postgresql://db/e?user=ada&password=***&sslmode=require"),
        ("redis://:pw@db:6379/0", "redis://:***@db:6379/0"),
        ("redis://db/0?password=pw", "redis://db/0?password=***"),
        ("postgresql://ada:pw@[::1/e", "postgresql://ada:***@[::1/e"),
        ("http://u:pw@collector:4318/v1/traces", "http://u:***@collector:4318/v1/traces"),
    ],
)  # fmt: skip
def test_passwords_are_starred_out_wherever_they_stand(address: str, shown: str) -> None:
    assert without_password(address) == shown


@pytest.mark.parametrize(
    "address", ["postgresql://ada@/e?host=%2Frun-pg", "unix:///home/a:b/redis.sock", "redis://one:1,two:2/0", ""]
)
def test_an_address_without_a_password_stays_as_it_is(address: str) -> None:
    assert without_password(address) == address
