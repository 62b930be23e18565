"""A setting that cannot be used is refused at start, by its name."""

import pytest

from engramq.schemas.settings import SettingsError, read_settings


@pytest.mark.parametrize("variable", ["ENGRAMQ_NAMESPACE", "ENGRAMQ_PRINCIPAL"])
@pytest.mark.parametrize("value", ["  ", "x" * 256, "a\0b", b"caf\xe9".decode(errors="surrogateescape")])
def test_a_name_that_could_not_be_kept_is_refused(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_settings({variable: value})
    assert variable in str(refusal.value)
    str(refusal.value).encode()
