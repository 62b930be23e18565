"""JWTs: only what the issuer signed for us, now, by an algorithm that we allow, says who is calling."""

import hashlib
import hmac
import logging
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.identity.jwt import TOKEN_CHARS, FileKey, JwtAuthenticator, PublishedKeys
from engramq.schemas.envelope import Principal
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import Scope
from tests.gateway.issuer import AUDIENCE, ISSUER, claims, jwt_setting, key_for, part, public_jwk, public_pem, signed

NOW = int(time.time())


def settings_with(**changes: str) -> Settings:
    return read_settings({"ENGRAMQ_AUTH": "jwt", "ENGRAMQ_JWT": jwt_setting(**{"keys": "/key.pem", **changes})})


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    path.write_bytes(public_pem(key_for("RS256")))
    return path


@pytest.fixture
def authenticator(pem: Path) -> JwtAuthenticator:
    return JwtAuthenticator(settings_with(), FileKey(pem))


async def whose(authenticator: JwtAuthenticator, token: str) -> Caller | None:
    return await authenticator.caller_of(token, lambda: None)


def by_hand(header: str, payload: str, algorithm: str = "RS256") -> str:
    """Sign what the library would not."""
    signing_input = f"{header}.{payload}"
    signature = jwt.get_algorithm_by_name(algorithm).sign(signing_input.encode(), key_for(algorithm))
    return f"{signing_input}.{part(signature)}"


def with_claims(**changes: Any) -> str:
    return signed(said=claims(**changes))


@pytest.mark.promise("SE-1")
async def test_claims_say_who_calls(authenticator: JwtAuthenticator) -> None:
    principal = Principal(name="ada", scopes=(Scope.READ, Scope.WRITE))
    assert await whose(authenticator, signed()) == Caller("ns", principal)
    assert await whose(authenticator, with_claims(untrusted=True, scope="read")) == Caller(
        "ns", Principal(name="ada", scopes=(Scope.READ,), untrusted=True)
    )


@pytest.mark.parametrize(
    ("said", "scopes"),
    [
        ({"scope": "write verify"}, "write verify"),
        ({"scope": None, "scp": "read"}, "read"),
        ({"scope": None, "scp": ["read", "admin", 7, None]}, "read admin"),
        ({"scope": "openid readwrite READ"}, ""),
        ({"scope": None}, ""),
        ({"scope": {"read": True}}, ""),
        ({"scope": "", "scp": "admin"}, ""),
    ],
)
async def test_scopes_come_as_a_text_or_a_list(
    authenticator: JwtAuthenticator, said: dict[str, Any], scopes: str
) -> None:
    found = await whose(authenticator, with_claims(**said))
    assert found is not None
    assert found.principal.scopes == tuple(Scope(word) for word in scopes.split())


async def test_claims_have_the_names_that_the_settings_give(pem: Path) -> None:
    changed = settings_with(namespace="https://example.org/tenant", scope="permissions", untrusted="web")
    authenticator = JwtAuthenticator(changed, FileKey(pem))
    token = with_claims(**{"https://example.org/tenant": "t", "permissions": ["verify"], "web": True})
    principal = Principal(name="ada", scopes=(Scope.VERIFY,), untrusted=True)
    assert await whose(authenticator, token) == Caller("t", principal)


@pytest.mark.promise("SE-1")
@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.example.org/"},
        {"iss": ISSUER.rstrip("/")},
        {"iss": [ISSUER]},
        {"iss": None},
        {"aud": "https://other.example.org/mcp"},
        {"aud": AUDIENCE + "x"},
        {"aud": []},
        {"aud": 7},
        {"aud": None},
        {"exp": NOW - 60},
        {"exp": None},
        {"exp": "never"},
        {"exp": -1},
        {"nbf": NOW + 3_600},
        {"nbf": "soon"},
        {"iat": NOW + 3_600},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 7},
        {"sub": "x" * 256},
        {"sub": "a\0b"},
        {"sub": "engramq"},
        {"namespace": None},
        {"namespace": " "},
        {"namespace": ["ns"]},
        {"namespace": "x" * 256},
        {"namespace": "engramq:system"},
        {"untrusted": "false"},
        {"untrusted": 0},
        {"untrusted": None, "untrusted ": True, "sub": None},
    ],
)
async def test_a_claim_that_is_not_as_it_must_be_is_refused(
    authenticator: JwtAuthenticator, changes: dict[str, Any]
) -> None:
    assert await whose(authenticator, by_hand(part({"alg": "RS256"}), part(claims()))) is not None
    assert await whose(authenticator, by_hand(part({"alg": "RS256"}), part(claims(**changes)))) is None


@pytest.mark.parametrize(
    "payload", [b"", b"null", b"[]", b'"x"', b"{", b"\xff", b'{"exp": 1e999}', b'{"exp": ' + b"[" * 3_000, b"7"]
)
async def test_what_the_issuer_signed_and_is_no_set_of_claims_is_refused(
    authenticator: JwtAuthenticator, payload: bytes
) -> None:
    assert await whose(authenticator, by_hand(part({"alg": "RS256"}), part(payload))) is None


async def test_clocks_may_differ_by_the_leeway_and_no_more(authenticator: JwtAuthenticator) -> None:
    assert await whose(authenticator, with_claims(exp=int(time.time()) - 20)) is not None
    assert await whose(authenticator, with_claims(exp=int(time.time()) - 35)) is None
    assert await whose(authenticator, with_claims(nbf=int(time.time()) + 20)) is not None
    assert await whose(authenticator, with_claims(nbf=int(time.time()) + 60)) is None


@pytest.mark.promise("SE-1")
@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", ""])
async def test_a_token_without_signature_is_refused(authenticator: JwtAuthenticator, alg: str) -> None:
    for signature in ("", part(b"x")):
        assert await whose(authenticator, f"{part({'alg': alg})}.{part(claims())}.{signature}") is None


@pytest.mark.promise("SE-1")
@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
async def test_a_token_signed_with_the_public_key_as_a_secret_is_refused(
    authenticator: JwtAuthenticator, alg: str
) -> None:
    hashing = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[alg]
    public = public_pem(key_for("RS256"))
    for secret in (public, public.strip(), b""):
        for claimed in (alg, "RS256"):
            signing_input = f"{part({'alg': claimed, 'typ': 'JWT'})}.{part(claims())}"
            forged = hmac.digest(secret, signing_input.encode(), hashing)
            assert await whose(authenticator, f"{signing_input}.{part(forged)}") is None


@pytest.mark.parametrize("algorithm", ["PS256", "RS384", "RS512"])
async def test_every_signature_that_a_key_can_make_is_taken(authenticator: JwtAuthenticator, algorithm: str) -> None:
    assert await whose(authenticator, jwt.encode(claims(), key_for("RS256"), algorithm)) is not None


@pytest.mark.parametrize("claimed", ["ES256", "EdDSA", "RS256"])
@pytest.mark.parametrize("actual", ["ES256", "EdDSA", "RS256"])
async def test_the_key_decides_what_a_signature_is_not_the_token(tmp_path: Path, claimed: str, actual: str) -> None:
    (tmp_path / "key.pem").write_bytes(public_pem(key_for("ES256")))
    authenticator = JwtAuthenticator(settings_with(), FileKey(tmp_path / "key.pem"))
    found = await whose(authenticator, by_hand(part({"alg": claimed}), part(claims()), actual))
    assert (found is not None) == (claimed == actual == "ES256")


@pytest.mark.promise("SE-1")
async def test_a_foreign_key_and_a_changed_token_are_refused(authenticator: JwtAuthenticator) -> None:
    assert await whose(authenticator, signed(name="theirs")) is None
    head, body, signature = signed().split(".")
    changed = part({**claims(), "sub": "eve"})
    assert await whose(authenticator, f"{head}.{changed}.{signature}") is None
    other = "A" if signature[0] != "A" else "B"
    assert await whose(authenticator, f"{head}.{body}.{other}{signature[1:]}") is None
    for wrong in (f"{head}.{body}.", f"{head}.{body}", head, f"{head}.{body}.{signature}.", f"{head}..{signature}"):
        assert await whose(authenticator, wrong) is None


@pytest.mark.parametrize(
    "header",
    [
        b"", b"null", b"[]", b"{}", b'{"alg": null}', b'{"alg": ["RS256"]}', b'{"alg": "RS256", "kid": 7}',
        b'{"alg": "RS256", "crit": ["exp"]}', b'{"alg": "RS256", "b64": false, "crit": ["b64"]}',
        b'{"alg": ' + b"[" * 5_000, b'{"x": ' + b'{"x": ' * 1_000 + b"1" + b"}" * 1_001, b"\xff\xfe",
    ],
)  # fmt: skip
async def test_broken_headers_are_refused(authenticator: JwtAuthenticator, header: bytes) -> None:
    assert await whose(authenticator, by_hand(part(header), part(claims()))) is None


async def test_keys_that_a_token_brings_along_mean_nothing(authenticator: JwtAuthenticator) -> None:
    headers = {"jwk": public_jwk("RS256", "k1", "theirs"), "jku": "https://evil.example/keys", "x5u": "https://evil/x"}
    token = jwt.encode(claims(), key_for("RS256", "theirs"), "RS256", headers=headers)
    assert await whose(authenticator, token) is None


async def test_huge_tokens_are_not_even_decoded(authenticator: JwtAuthenticator) -> None:
    roomy = TOKEN_CHARS - len(with_claims(pad="x")) - 8
    assert await whose(authenticator, with_claims(pad="x" * (roomy * 3 // 4))) is not None
    assert await whose(authenticator, with_claims(pad="x" * TOKEN_CHARS)) is None
    assert await whose(authenticator, "a." * 1_000_000) is None


@given(st.one_of(st.text(max_size=200), st.from_regex(r"[A-Za-z0-9_\-.]{0,80}\.[A-Za-z0-9_\-.]{0,80}\.[A-Za-z0-9_-]*")))
async def test_garbage_is_refused(token: str) -> None:
    authenticator = JwtAuthenticator(settings_with(), PublishedKeys("http://127.0.0.1:9/none"))
    assert await whose(authenticator, token) is None


@pytest.mark.promise("SE-8")
async def test_refused_tokens_leave_no_trace_of_themselves(
    authenticator: JwtAuthenticator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = with_claims(sub="distinctive-subject", aud="elsewhere")
    assert await whose(authenticator, token) is None
    said = " ".join(str(record.__dict__) for record in caplog.records)
    assert "InvalidAudienceError" in said
    for secret in (token, *token.split("."), "distinctive-subject"):
        assert secret not in said
