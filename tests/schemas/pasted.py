"""What people paste beside a question, made up: a trace, a diff, a mail, a log, and others."""

from typing import Final

PYTHON_TRACE: Final = (
    "Traceback (most recent call last):\n"
    + "".join(
        f'  File "/srv/.venv/lib/python3.12/site-packages/framework/layer{number}.py", line {100 + number}, in handle\n'
        f"    response = await self.layer{number}.call(request, timeout=self.timeout)\n"
        for number in range(9)
    )
    + (
        '  File "/srv/app/src/billing/charge.py", line 42, in charge\n'
        '    amount = order["currency"]\n'
        "KeyError: 'currency'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        "billing.errors.ChargeRefusedError: the order ORD-3391 has no currency"
    )
)
NODE_TRACE: Final = (
    "TypeError: Cannot read properties of undefined (reading 'map')\n"
    + "".join(
        f"    at renderWithHooks{number} (/app/node_modules/react-dom/react-dom.development.js:{14985 + number}:18)\n"
        for number in range(14)
    )
    + "    at CartList (/app/src/components/CartList.tsx:27:31)\n    at async Promise.all (index 0)"
)
DIFF: Final = """diff --git a/deploy/values.yaml b/deploy/values.yaml
index 83db48f..bf2a1c9 100644
--- a/deploy/values.yaml
+++ b/deploy/values.yaml
@@ -12,9 +12,14 @@ resources:
   limits:
-    memory: 512Mi
+    memory: 1Gi
   requests:
-    cpu: 100m
+    cpu: 250m
+  autoscaling:
+    enabled: true  # was this ever on? ask the platform team
+    minReplicas: 2
+    maxReplicas: 6
""" + "".join(
    f"@@ -{number},3 +{number},3 @@ def check_{number}():\n-    return x ? 1 : 2\n+    return value\n"
    for number in range(30, 50)
)
MAIL: Final = """From: Hassan Rahimi <hassan@northwind.example>
To: Ada Keller <ada@example.com>
Subject: Re: Offer for the second phase
Date: Tue, 3 Nov 2026 09:12:44 +0100

Hi Ada,

thank you for the call on Friday. We went through the offer in our steering group, and most of it is fine with us. The
second phase can begin in January, as you proposed, and our own people take over the training of the branches.

Two points are open. The hourly rate for the migration is above the frame that our purchasing department has given us,
and the travel to Bremen should be in the fixed price. Could you send us a new version by the end of the week? If that
is too tight, Monday morning is early enough, since the board meets on Tuesday.

The contract itself is with our lawyers, who have no remarks so far.

Best regards,
Hassan

--
Northwind GmbH, Bremen"""
GERMAN_MAIL: Final = """Von: Jana Vogel
An: Team
Betreff: Umzug der Server

Hallo zusammen,

am Wochenende ziehen wir die Server in das neue Rechenzentrum um. Bitte sichert vorher eure Daten und meldet euch ab.
Wer am Samstag nicht erreichbar ist, nennt mir eine Vertretung. Die Leitung ist ab 8 Uhr offen, und wir rechnen mit vier
Stunden Ausfall. Danach laufen die Dienste wieder, zuerst die Datenbank, dann die Anwendungen und zuletzt die Berichte.

Fragen beantworte ich gern am Telefon. Die Liste der Dienste liegt im Wiki, mit den Namen derer, die sie betreuen.

Viele Grüße
Jana"""
JSON_ANSWER: Final = (
    '{"error":{"code":"rate_limited","message":"too many requests","retry_after":30},"items":['
    + ",".join(
        f'{{"id":{number},"status":"queued","region":"eu-{number % 3}","attempts":{number % 7}}}'
        for number in range(30)
    )
    + "]}"
)
TEST_RUN: Final = (
    "============ test session starts ============\nplatform linux -- Python 3.12.4, pytest-8.3.2\n"
    + "".join(f"tests/orders/test_totals.py::test_total_{number} PASSED [{number}%]\n" for number in range(25))
    + "E   assert Decimal('10.01') == Decimal('10.00')\n"
    + "FAILED tests/orders/test_rounding.py::test_half_cents - assert\n1 failed, 25 passed in 3.21s"
)
MINUTES: Final = """Minutes of the weekly meeting

Present were Tom, Priya and Lena. Tom opened with the figures of the last month, which were better than expected. The
new landing page brought more visitors, although fewer of them than hoped signed up for a trial.

Priya reported from the conference. Most talks were about costs. She will write a page about the three that matter to us
and present it next week. Lena asked whether somebody can look after the printer. Nobody volunteered.

The office will be closed between the holidays. Whoever needs access tells the front desk before the twentieth.

Next meeting in two weeks, same place."""
TABLE: Final = "region;month;orders;revenue;returns\n" + "".join(
    f"north;2026-{number % 12 + 1:02};{number * 37 % 501};{number * 911 % 9973}.50;{number % 9}\n"
    for number in range(60)
)

# Each with a question, and a memory that answers it and shares nothing with the paste.
CASES: Final = (
    (
        PYTHON_TRACE,
        "Who is the dentist that Mira recommended?",
        "Mira recommended Dr. Okafor as a dentist, near the station.",
    ),
    (
        NODE_TRACE,
        "Which colour did we choose for the kitchen wall?",
        "The kitchen wall will be sage green; Ben chose the colour.",
    ),
    (DIFF, "How much memory does the staging cluster have?", "The staging cluster has 96 GB of memory on three nodes."),
    (
        MAIL,
        "What hourly rate did we agree on with Northwind?",
        "We agreed on an hourly rate of 118 euros with Northwind in May.",
    ),
    (
        GERMAN_MAIL,
        "Which hotel does the team like in Lisbon?",
        "In Lisbon the team likes the hotel Avenida Palace best.",
    ),
    (
        JSON_ANSWER,
        "What is the retry limit of the courier API?",
        "The courier API allows five retries, then the parcel is dropped.",
    ),
    (
        TEST_RUN,
        "How do we round half cents in invoices?",
        "Invoices round half cents to the even cent, as the auditors want.",
    ),
    (
        MINUTES,
        "Where does the spare key of the boat house hang?",
        "The spare key of the boat house hangs behind the blue door.",
    ),
    (TABLE, "When does the lease of the office in Graz end?", "The lease of the office in Graz ends on 30 June 2028."),
)


def log_of(chars: int) -> str:
    """Return a log of about so many characters."""
    lines, number = list[str](), 0
    while sum(map(len, lines)) < chars:
        number += 1
        line = (
            f"2026-11-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:07.{number % 1000:03}Z INFO "
            f"[worker-{number % 8}] queue=mail-{number % 5} took={number * 7 % 900}ms id={number * 7919:08x} sent\n"
        )
        lines += [line] * 20
    return "".join(lines)[:chars]
