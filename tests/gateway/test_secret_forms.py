"""The forms in which people and programs write secrets, and what only looks like them: finding D7."""

import pytest

from engramq.gateway.redaction import Redaction

pytestmark = pytest.mark.promise("SE-19")

# Made up, and put together here, so that no scanner of this repository takes them for real.
MIXED = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
KEY_ID = "AKIA" + "IOSFODNN7EXAMPL2"
BESIDE = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzEXAMPLEKE"
HEX = "8f14e45fceea167a" + "5a36dedd4bea2543"
UUID = "1234abcd-12ab-34cd-" + "56ef-1234567890ab"

# A text, and what of it must go.
FORMS = [
    # in sentences
    ("the password is Tr0ub4dor&3", "Tr0ub4dor&3"),
    ("Our staging DB password is hunter2-Staging!", "hunter2-Staging"),
    ("I changed the root password to Xk9#mPq2 yesterday", "Xk9#mPq2"),
    ("Log in with user deploy and password s3cretDeploy, then restart.", "s3cretDeploy"),
    ("Use Winter2026! as the password for the router", "Winter2026"),
    ("The password for the staging database is: g7Hq-22xLp", "g7Hq-22xLp"),
    ("My bank card PIN is 4821, do not tell anybody", "4821"),
    ("credentials are admin / Qwerty!234", "Qwerty!234"),
    ("the password is 'hunter2'", "hunter2"),
    ("The password for the router is 'sunshine', as ever", "sunshine"),
    # in German sentences
    ("Das Passwort lautet „sonnenschein“.", "sonnenschein"),
    ("Passwort: Geheim123!", "Geheim123"),
    ("Mein Passwort lautet Sommer2026!", "Sommer2026"),
    ("Das Passwort für die Datenbank ist jetzt Kakadu77#", "Kakadu77"),
    ("Ich habe das Kennwort auf Blau3Wal geändert.", "Blau3Wal"),
    ("Zugangsdaten: ada / Regen-Schirm9", "Regen-Schirm9"),
    # in commands
    ("curl -u admin:S3cr3tPw https://api.example.org/v1/jobs", "S3cr3tPw"),
    ("mysql -u root -pS3cret shop < dump.sql", "S3cret"),
    ("mongosh --host db1 -u ada -p 'v3ryHidden'", "v3ryHidden"),
    ("redis-cli -h cache.example.org -a f00bared99 ping", "f00bared99"),
    ("docker login -u ada -p hunter2hunter2 registry.example.org", "hunter2hunter2"),
    ("htpasswd -b /etc/nginx/.htpasswd ada heliotrope && nginx -s reload", "heliotrope"),
    ("htpasswd -b ada heliotrope", "heliotrope"),
    ("htpasswd -nbB ada heliotrope | docker secret create web -", "heliotrope"),
    ("PGPASSWORD=heliotrope psql -h db -U shop", "heliotrope"),
    ("gh auth login --with-token; deploy --api-key 9d8f7a6b5c4e3210", "9d8f7a6b5c4e3210"),
    # behind names
    (f"token: {HEX}", HEX),
    (f"NPM_TOKEN={UUID}", UUID),
    (f"export SENTRY_KEY={MIXED}", MIXED),
    ("DB_PASSWORD=Tr0ub4dor&3 in the .env", "Tr0ub4dor&3"),
    ('{"client_secret": "kq83-hsgb-22ma"}', "kq83-hsgb-22ma"),
    (f"Authorization: Bearer {MIXED}", MIXED),
    # by their form
    (f"{KEY_ID} / {BESIDE}", BESIDE),
    (f"key id {KEY_ID}\nkey {BESIDE}\n", BESIDE),
    ("Pay with 4111 1111 1111 1111, it expires 12/29", "1111 1111"),
    ("5500-0055-5555-5559 is the company's card", "5555-5559"),
    ("Amex 378282246310005", "378282246310005"),
    ("ghp_" + MIXED, MIXED),
    ("postgresql://shop:s3cretly@db.example.org/shop", "s3cretly"),
    ("sk-ant-" + "api03-" + MIXED, MIXED),
    ("-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7q2w3e4r5t6", "MIIEpAIBAAKCAQEA7q2w3e4r5t6"),
]
LOOK_ALIKES = [
    # sentences about passwords
    "Firefox says that the password is 'incorrect', and so does the log",
    "htpasswd -c /etc/nginx/.htpasswd ada asks for it",
    'Its state for that password is "expired", not "accepted"',
    "The password is required and must have at least 12 characters",
    "the password is sha256-hashed before it is stored",
    "The password is 32-byte random data, made by the setup script",
    "Our password is stored in 1Password, in the vault of the team",
    "The password was reset on 2026-11-24 by Ada",
    "The password hash is bcrypt2 with a cost of 12",
    "Passwords are checked by argon2id since v2.3.1",
    "The password field is id_password2.html in the templates",
    "A password is at /run/secrets/db_password_2",
    "The password is wrong, said the server for the third time",
    "Set the password to $DB_PASS1 before you start it",
    "I moved the password to user2@example.org's account",
    "password reset takes 15min, password rotation 90days",
    "With OAuth2 as the password replacement nobody types one",
    "The token is valid for 30days and the secret for 90days",
    "The token is refreshed every 3600s",
    "The secret is called prod-db-creds-v2 in Kubernetes",
    "A token is worth 4.2 characters on average, max_tokens=4096",
    "The API key is in config2.yaml, the access key in ~/.aws/credentials",
    "PIN codes have 4 digits, a PIN is 6 digits at our bank",
    "GPIO pin is 17, the other pin is 27",
    "Das Passwort ist falsch, sagt der Server",
    "Das Passwort muss mindestens 12 Zeichen haben",
    "Das Kennwort ist 8-stellig und wird alle 90Tage geändert",
    "Der Schlüssel liegt unter der Matte, der Token läuft nach 15min ab",
    "Die Zugangsdaten liegen im Tresor, siehe Ticket-4711",
    "Passwort vergessen? Dann auf den Link klicken",
    # commands
    "curl -u admin https://api.example.org/v1/jobs",
    "curl -u $USER:$PASSWORD https://api.example.org",
    "mysql -u root -p shop < dump.sql",
    "psql -h db.example.org -p 5432 -U shop",
    "ssh -p 2222 ada@host1.example.org",
    "docker run -p 8080:80 -p 3306:3306 mysql:8.4",
    "redis-cli -p 6380 -n 2 ping",
    "mkdir -p src/module1/tests && tar -xzf release-2.1.tar.gz",
    "gh auth login --with-token < token.txt",
    "The option --password is deprecated since v3.2; use --password-file",
    "docker login -u ada --password-stdin registry.example.org",
    # names with values
    "CACHE_KEY=deps-linux-4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "idempotency_key: 0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42",
    "PRIMARY_KEY=order_id2 and sort_key=created_at_2",
    "PWD=/home/ada/projects/shop2 OLDPWD=/tmp/x1",
    "POSTGRES_PASSWORD=changeme in the example file",
    "password = get_password2(user)",
    "secret_name: db-creds-2",
    "SSH_KEY=~/.ssh/id_ed25519",
    "KEYBOARD=pc105 and KEYMAP=de-latin1",
    "token_count: 20481024, tokens: 131072",
    "next_token: eyJwYWdlIjoyfQ2345",
    "--- PASS: TestLogin2 (0.00s)\nPASS: 128 tests, secret scanning: 0 alerts",
    # numbers and hashes
    "Order 4111 1111 1111 1112 is late",
    "It began at 1700000000000000 and the trace is 1234567890123456",
    "IBAN DE89 3704 0044 0532 0130 00 of the club",
    "ISBN 978-3-16-148410-0, EAN 4006381333931, IMEI 490154203237518",
    "Call +49 30 901820 or 0800 330 1000 between 9 and 17",
    "The commit is 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    f"md5 of the file: {HEX}",
    "AKIA is the prefix of a key's id, /usr/lib/x86_64-linux-gnu/libcrypto.so.3 the library",
    "Amex cards begin with 34 or 37 and have 15 digits: 3782 is its beginning",
    "postgresql://localhost:5432/shop and https://example.org:8443/a@b",
]


def test_a_secret_is_taken_out_however_people_write_it() -> None:
    for text, secret in FORMS:
        redaction = Redaction()
        assert secret not in redaction.of_text(f"Note this. {text}\nAnd go on."), text
        assert redaction.count >= 1, text


def test_what_looks_like_a_secret_stays() -> None:
    assert [Redaction().of_text(text) for text in LOOK_ALIKES] == LOOK_ALIKES
