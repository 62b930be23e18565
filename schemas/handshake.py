"""What is wrong with a TLS handshake with Redis, in words, and how to mend it."""

import re
import ssl
from typing import Final

FOREIGN_CA: Final = "Redis shows a certificate of a CA that is not trusted here."
OTHER_NAME: Final = "Redis shows a certificate of another host name."
EXPIRED: Final = "Redis shows a certificate that is not valid now."
NO_TLS: Final = "Redis does not speak TLS there."
ONLY_TLS: Final = "Redis speaks only TLS there."
CLIENT_REFUSED: Final = "Redis wants a client certificate, or another one."
CLOSES: Final = "Redis closes the connection after the TLS handshake; it may want a client certificate."
BAD_FILES: Final = "A certificate or key file of the Redis URL cannot be used."

_NAME_BOTH: Final = "Name both in ENGRAMQ_REDIS_URL: `?ssl_certfile=/path/cert.pem&ssl_keyfile=/path/key.pem`."
MENDS: Final = {
    FOREIGN_CA: "Name its CA in ENGRAMQ_REDIS_URL: `?ssl_ca_certs=/path/ca.pem`.",
    OTHER_NAME: "Name the host in ENGRAMQ_REDIS_URL as its certificate does.",
    EXPIRED: "Renew its certificate, and see that the clocks are right.",
    NO_TLS: "Write redis:// in ENGRAMQ_REDIS_URL, or its port for TLS.",
    ONLY_TLS: "Write rediss:// in ENGRAMQ_REDIS_URL.",
    CLIENT_REFUSED: _NAME_BOTH,
    CLOSES: _NAME_BOTH,
    BAD_FILES: "See that each file of ssl_ca_certs, ssl_certfile and ssl_keyfile is PEM and that the key fits.",
}


# redis-py's words for ENOENT and EACCES on the way to a host, not to a socket: only a file that the URL names can be
# what is not there, or may not be read.
_NO_FILE: Final = re.compile(r"Error (2|13) connecting to [^/]")
# OpenSSL's numbers of what is wrong with a certificate (x509_vfy.h).
_NAMES: Final = {62, 64}  # of another host, of another address
_TIMES: Final = {9, 10}  # not yet valid, expired
# Words of OpenSSL's reasons: what the server says of us, or what its first bytes are.
_BY_REASON: Final = {
    "WRONG_VERSION_NUMBER": NO_TLS,
    "RECORD_LAYER_FAILURE": NO_TLS,
    "PACKET_LENGTH_TOO_LONG": NO_TLS,
    "CERTIFICATE_REQUIRED": CLIENT_REFUSED,
    "ALERT_UNKNOWN_CA": CLIENT_REFUSED,
    "ALERT_BAD_CERTIFICATE": CLIENT_REFUSED,
    "ALERT_CERTIFICATE": CLIENT_REFUSED,
    "ALERT_HANDSHAKE_FAILURE": CLIENT_REFUSED,
    "NO_CERTIFICATE_OR_CRL_FOUND": BAD_FILES,
    "KEY_VALUES_MISMATCH": BAD_FILES,
    "PEM LIB": BAD_FILES,
    "PEM_LIB": BAD_FILES,
}


def handshake_problem(problem: BaseException | None) -> str:
    """Return what was wrong with a TLS handshake, as a sentence; nothing where that was not the matter."""
    seen = problem
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            code = seen.verify_code
            return OTHER_NAME if code in _NAMES else EXPIRED if code in _TIMES else FOREIGN_CA
        if isinstance(seen, ssl.SSLError):
            told = str(seen).upper().replace("SSLV3_", "").replace("TLSV13_", "").replace("TLSV1_", "")
            return next((sentence for word, sentence in _BY_REASON.items() if word in told), "")
        seen = seen.__cause__ or seen.__context__
    told = str(problem)
    if _NO_FILE.match(told):
        return BAD_FILES
    # A server that takes TLS alone answers plain bytes by an alert: content type 21, version 3.
    return ONLY_TLS if "\x15" in told or "\\x15" in told else ""
