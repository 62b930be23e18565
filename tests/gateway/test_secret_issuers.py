"""The issuers whose tokens are known, one made-up token of each form: the list that docs/security.md speaks of."""

import pytest

from engramq.gateway.redaction import Redaction
from engramq.gateway.secret_issuers import ISSUERS

pytestmark = pytest.mark.promise("SE-19")

# Made up, and put together here, so that no scanner of this repository takes them for real.
_MIXED = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6A7b8C9d0E1f2G3h4I5j6K7l8M9n0O1p2Q3r4S5t6U7v8W9x0Y1z2"
_HEXES = "8f14e45fceea167a5a36dedd4bea2543c9f0f895fb98ab9159f51fd0297e236dd3d9446802a44259755d38e6d163e820"
_CAPITALS = "A1B2C3D4E5F6G7H8I9J0K1L2M3N4O5P6Q7R8"
_BASE64 = "eyJ2IjoxfQ+/" + _MIXED
_UUID = "1234abcd-12ab-34cd-56ef-1234567890ab"


def mixed(size: int) -> str:
    return (_MIXED * 3)[:size]


def hexes(size: int) -> str:
    return (_HEXES * 2)[:size]


TOKENS = {
    "engramq Token": ["engramq_" + mixed(43)],
    "Anthropic Token": ["sk-ant-" + "api03-" + mixed(93), "sk-ant-" + "admin01-" + mixed(93)],
    "OpenAI Token": ["sk-" + "proj-" + mixed(74), "sk-" + "svcacct-" + mixed(60), "sk-" + mixed(48)],
    "OpenRouter Token": ["sk-" + "or-v1-" + hexes(64)],
    "Langfuse Token": ["sk-" + "lf-" + _UUID],
    "DeepSeek Token": ["sk-" + hexes(32)],
    "ElevenLabs Token": ["sk_" + hexes(48)],
    "Perplexity Token": ["pplx-" + mixed(48)],
    "Hugging Face Token": ["hf_" + mixed(34), "api_" + "org_" + mixed(34)],
    "Groq Token": ["gsk_" + mixed(52)],
    "xAI Token": ["xai-" + mixed(80)],
    "Replicate Token": ["r8_" + mixed(37)],
    "NVIDIA Token": ["nvapi-" + mixed(64)],
    "Cerebras Token": ["csk-" + mixed(48)],
    "Together Token": ["tgp_" + "v1_" + mixed(43)],
    "Jina Token": ["jina_" + mixed(60)],
    "RunPod Token": ["rpa_" + mixed(44)],
    "Tavily Token": ["tvly-" + mixed(32), "tvly-" + "dev-" + mixed(32)],
    "Firecrawl Token": ["fc-" + hexes(32)],
    "Pinecone Token": ["pcsk_" + mixed(6) + "_" + mixed(63)],
    "LangSmith Token": ["lsv2_" + "pt_" + hexes(32) + "_" + hexes(10), "lsv2_" + "sk_" + hexes(32) + "_" + hexes(10)],
    "AWS Access Key": ["AKIA" + _CAPITALS[:16], "ASIA" + _CAPITALS[:16]],
    "AWS Bedrock Key": ["ABSK" + _BASE64 + mixed(40) + "==", "bedrock-" + "api-key-" + _BASE64],
    "Google API Key": ["AIza" + mixed(35)],
    "Google OAuth Secret": ["GOCSPX-" + mixed(28), "ya29." + mixed(100), "1//" + "0g" + mixed(60)],
    "Azure DevOps Token": [mixed(76) + "AZDO" + "Ab12"],
    "Azure Storage Signature": ["https://a.blob.core.windows.net/c?sv=2024-11-04&" + "sig=" + mixed(40) + "%3D"],
    "Azure Client Secret": ["a1B" + "8Q~" + mixed(34)],
    "Azure Storage Account access key": ["AccountKey=" + _BASE64 + "=="],
    "Alibaba Access Key": ["LTAI" + mixed(20)],
    "DigitalOcean Token": ["dop_" + "v1_" + hexes(64), "doo_" + "v1_" + hexes(64), "dor_" + "v1_" + hexes(64)],
    "Cloudflare Token": [
        "cfut_" + mixed(48),
        "cfat_" + mixed(48),
        "cfk_" + mixed(48),
        "v1.0-" + hexes(24) + "-" + hexes(146),
    ],
    "Heroku Token": ["HRKU-" + "AA" + mixed(58)],
    "Fly.io Token": ["fo1_" + mixed(43), "fm2_" + _BASE64 + mixed(60) + "=", "fm1r_" + _BASE64 + mixed(60)],
    "Vercel Token": ["vcp_" + mixed(56), "vck_" + mixed(56)],
    "Netlify Token": ["nfp_" + mixed(40)],
    "Render Token": ["rnd_" + mixed(28)],
    "Scalingo Token": ["tk-" + "us-" + mixed(48)],
    "Pulumi Token": ["pul-" + hexes(40)],
    "Prefect Token": ["pnu_" + mixed(36)],
    "OpenShift Token": ["sha256~" + mixed(43)],
    "Tailscale Key": [
        "tskey-" + "auth-" + mixed(12) + "-" + mixed(32),
        "tskey-" + "api-" + mixed(12) + "-" + mixed(32),
    ],
    "Octopus Deploy Key": ["API-" + _CAPITALS[:26]],
    "Harness Token": ["pat." + mixed(22) + "." + mixed(24) + "." + mixed(20)],
    "Databricks Token": ["dapi" + hexes(32)],
    "Supabase Token": ["sbp_" + hexes(40), "sb_" + "secret_" + mixed(31)],
    "PlanetScale Token": [
        "pscale_" + "tkn_" + mixed(43),
        "pscale_" + "pw_" + mixed(43),
        "pscale_" + "oauth_" + mixed(43),
    ],
    "Neon Token": ["napi_" + mixed(64)],
    "ClickHouse Key": ["4b1d" + mixed(38)],
    "HashiCorp Vault Token": ["hvs." + mixed(95), "hvb." + mixed(140)],
    "Terraform Token": [mixed(14) + ".atlasv1." + mixed(67)],
    "Doppler Token": ["dp." + "pt." + mixed(43), "dp." + "st.prd_api." + mixed(43)],
    "MaxMind Key": [mixed(6) + "_" + mixed(29) + "_mmk"],
    "1Password Token": ["ops_" + _BASE64 + mixed(200)],
    "1Password Key": ["A3-" + "A1B2C3-D4E5F6-G7H8I-J9K0L-M1N2O-P3Q4R"],
    "Age Secret Key": ["AGE-SECRET-" + "KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE"],
    "GitHub Token": ["ghp_" + mixed(36), "gho_" + mixed(36), "github_" + "pat_" + mixed(22) + "_" + mixed(59)],
    "GitLab Token": ["glpat-" + mixed(20), "gldt-" + mixed(20), "glrt-" + mixed(20), "GR1348941" + mixed(20)],
    "Bitbucket Token": ["ATBB" + mixed(32)],
    "Atlassian Token": ["ATATT3x" + "FfGF0" + mixed(180), "ATCTT3x" + "FfGN0" + mixed(180)],
    "NPM tokens": ["npm_" + mixed(36)],
    "PyPI Token": ["pypi-" + "AgEIcHlwaS5vcmc" + mixed(120)],
    "RubyGems Token": ["rubygems_" + hexes(48)],
    "crates.io Token": ["cio" + mixed(32)],
    "Clojars Token": ["CLOJARS_" + hexes(60)],
    "Docker Token": ["dckr_" + "pat_" + mixed(27)],
    "Docker Credentials": ['{"auths": {"a.example": {"auth": "' + "YWRhOmh1bnRlcjJodW50ZXIy" + '"}}}'],
    "Artifactory Credentials": ["AKCp" + mixed(69), "cmVmd" + mixed(59)],
    "Sourcegraph Token": ["sgp_" + hexes(16) + "_" + hexes(40), "slk_" + hexes(64)],
    "Buildkite Token": ["bkua_" + hexes(40)],
    "CircleCI Token": ["CCIPAT_" + mixed(22) + "_" + hexes(40)],
    "SonarQube Token": ["squ_" + hexes(40), "sqp_" + hexes(40), "sqco_" + mixed(59)],
    "Infracost Key": ["ico-" + mixed(32)],
    "ReadMe Key": ["rdme_" + mixed(70).lower()],
    "Postman API Key": ["PMAK-" + hexes(24) + "-" + hexes(34)],
    "Datadog Key": ["ddapp_" + mixed(34)],
    "New Relic Key": ["NRAK-" + _CAPITALS[:27], "NRII-" + mixed(32), hexes(32) + "FFFF" + "NRAL"],
    "Grafana Token": ["glsa_" + mixed(32) + "_" + hexes(8), "glc_" + _BASE64, "eyJrIjoi" + mixed(80) + "="],
    "Sentry Token": ["sntryu_" + hexes(64), "sntrys_" + _BASE64 + "=_" + mixed(43)],
    "PagerDuty Key": ["pdus+" + "_0XBPWQQ_" + _UUID],
    "Dynatrace Token": ["dt0c01." + _CAPITALS[:24] + "." + mixed(64)],
    "PostHog Key": ["phx_" + mixed(43)],
    "Slack Token": [
        "xoxb-" + "123456789012-1234567890123-" + mixed(24),
        "xapp-" + "1-A01-1234-" + hexes(64),
        "https://hooks.slack.com/workflows/" + "T01/A01/1234567/" + mixed(24),
    ],
    "Notion Token": ["ntn_" + "12345678901" + mixed(35), "secret_" + mixed(43)],
    "Figma Token": ["figd_" + mixed(40)],
    "Airtable Token": ["pat" + mixed(14) + "." + hexes(64)],
    "Asana Token": ["2/" + "1204567890123456/1204567890123457:" + hexes(32), "1/" + "1204567890123456:" + hexes(32)],
    "Linear API Key": ["lin_" + "api_" + mixed(40)],
    "HubSpot Token": ["pat-" + "na1-" + _UUID],
    "Frame.io Token": ["fio-" + "u-" + mixed(64)],
    "Adobe Secret": ["p8e-" + mixed(32)],
    "Contentful Token": ["CFPAT-" + mixed(43)],
    "Typeform Token": ["tfp_" + mixed(44) + "_" + mixed(14)],
    "Mapbox Token": ["sk." + "eyJ" + mixed(60) + "." + mixed(22)],
    "Teams Webhook": [f"https://x.webhook.office.com/webhookb2/{_UUID}@{_UUID}/IncomingWebhook/{hexes(32)}/{_UUID}"],
    "Zapier Webhook": ["https://hooks.zapier.com/hooks/" + "catch/1234567/a1b2c3d"],
    "Convex Key": ["prod:" + "happy-otter-123|" + mixed(60)],
    "Discord Bot Token": ["M" + mixed(23) + "." + mixed(6) + "." + mixed(27)],
    "SendGrid API Key": ["SG." + mixed(22) + "." + mixed(43)],
    "Mailgun Key": ["key-" + hexes(32), hexes(32) + "-" + hexes(8) + "-" + hexes(8)],
    "Resend Key": ["re_" + mixed(8) + "_" + mixed(24)],
    "Brevo Key": ["xkeysib-" + hexes(64) + "-" + mixed(16)],
    "Twilio API Key": ["SK" + hexes(32)],
    "Stripe Access Key": ["sk_" + "live_" + mixed(24), "rk_" + "prod_" + mixed(24), "whsec_" + mixed(32)],
    "Square Token": ["EAAA" + mixed(60), "sq0csp-" + mixed(43), "sq0atp-" + mixed(22)],
    "Facebook Token": ["EAAM" + mixed(120)],
    "Shopify Token": ["shpat_" + hexes(32), "shpss_" + hexes(32)],
    "Shippo Token": ["shippo_" + "live_" + hexes(40)],
    "EasyPost Key": ["EZAK" + mixed(54)],
    "Razorpay Key": ["rzp_" + "live_" + mixed(14)],
    "Plaid Token": ["access-" + "production-" + _UUID],
    "Duffel Token": ["duffel_" + "live_" + mixed(43)],
    "Flutterwave Key": ["FLWSECK_" + "TEST-" + hexes(32) + "-X"],
    "SettleMint Token": ["sm_" + "pat_" + mixed(16)],
    "Apify Token": ["apify_" + "api_" + mixed(36)],
    "Deno Token": ["ddp_" + mixed(36), "ddw_" + mixed(36)],
    "Portainer Token": ["ptr_" + mixed(43) + "="],
    "SaladCloud Key": ["salad_" + "cloud_user_" + mixed(40)],
    "Defined Networking Key": ["dnkey-" + _CAPITALS[:26] + "-" + mixed(52)],
    "Yandex Cloud Token": ["t1." + mixed(40) + "." + mixed(86)],
    "Yandex Cloud Key": ["AQVN" + mixed(36), "YC" + mixed(38)],
    "Bitbucket Data Center Token": ["BBDC-" + mixed(44)],
    "Endor Labs Key": ["endr+" + mixed(16)],
    "TruffleHog Key": ["thog-" + "secret-" + hexes(32)],
    "FullStory Key": ["na1." + mixed(100)],
    "Rootly Key": ["rootly_" + hexes(64)],
    "Adafruit Key": ["aio_" + mixed(28)],
    "Ubidots Token": ["BBFF-" + mixed(30)],
    "ClickUp Token": ["pk_" + "12345678_" + _CAPITALS[:32]],
    "Teamwork Token": ["tkn." + "v1_" + mixed(71) + "="],
    "Storyblok Token": [mixed(22) + "tt-123456-" + mixed(20)],
    "Bannerbear Key": ["bb_" + "pr_" + hexes(30)],
    "PhotoRoom Key": ["sk_" + "pr_default_" + hexes(40)],
    "Zoho Token": ["1000." + hexes(32) + "." + hexes(32)],
    "Close Key": ["api_" + mixed(22) + "." + mixed(22)],
    "Dropbox Token": ["sl." + mixed(135), "sl.u." + mixed(130)],
    "Authress Key": ["sc_" + "abcdefghij.a1b2.acc-abcdefghij1." + mixed(60)],
    "42 Secret": ["s-s4t2" + "ud-" + hexes(64)],
    "Tines Webhook": ["https://a.tines.com/webhook/" + hexes(32) + "/" + hexes(32)],
    "Klaviyo Key": ["pk_" + hexes(34), "pk_" + mixed(6) + "_" + hexes(34)],
    "PubNub Key": ["pub-" + "c-" + _UUID],
    "Stripe Payment Secret": ["pi_" + mixed(24) + "_secret_" + mixed(25)],
    "Checkout Key": ["sk_" + _UUID],
    "Lob Key": ["live_" + hexes(35)],
    "GoCardless Token": ["live_" + mixed(40)],
    "Pagar.me Key": ["ak_" + "live_" + mixed(30)],
    "Ramp Secret": ["ramp_" + "sec_" + mixed(48)],
    "Robinhood Key": ["rh-" + "api-" + _UUID],
    "Fleetbase Key": ["flb_" + "live_" + mixed(20)],
    "Flexport Token": ["shltm_" + mixed(40)],
    "Alchemy Key": ["alcht_" + mixed(30)],
    "Scrapfly Key": ["scp-" + "live-" + mixed(32)],
    "Session Cookie": ["Cookie: sessionid=" + mixed(32), "JSESSIONID=" + _CAPITALS[:32]],
    "Private Key": [
        "client-key-data: " + "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVk" + mixed(60),
        "private key 0x" + hexes(64),
    ],
    "Seed Phrase": [
        "seed phrase: " + "abandon ability able about above absent absorb abstract absurd abuse access accident",
        'The mnemonic is "' + "zoo zone zero youth young you yellow year wrong write wrist wreck" + '"',
    ],
}
CASES = [(kind, token) for kind, tokens in TOKENS.items() for token in tokens]
# Beginnings of tokens in names, words and ids, which are none.
NONE_OF_THEM = [
    "sk-ant-colony-simulation and sk-learn-contrib", "pplx-is-short", "re_write_the_parser_of_2024", "fc-cache -fv",
    "pul-request", "the key-value-store-of-2024-with-many-words", "key-8f14e45f", "patched in pat-2024",
    "secret_name_of_the_database", "api_org_chart", "EAAA is the first column", "4b1d is a hash", "v1.0-beta",
    "access-production-logs-of-2026-by-the-agent-of-the-gateway", "https://learn.example/webhookb2/IncomingWebhook",
    "v1.0-rc1-20260101", "cfat_table", "rnd_seed=42", "hf_hub_download", "npm_config_registry_of_this_project",
    "ph_scale_measurement_of_the_pond", "session=2026-11-29", "session_id: 7", "session=work and sid=Ada", "sid=sess-1",
    'auth: none, "auth": "basic"', "a seed phrase: never write it down anywhere where people look for such",
    "The seed phrase is twelve words which your wallet shows once when you make it", "private key 8f14e45f",
    "prod:api|worker", "transaction 0x" + hexes(64), "sl.se, sub-c-level managers and live_" + "x" * 40,
    "live_view_of_the_dashboard_2026", "pk_id and api_v1.module", "1000.50 and na1.example.com",
    "ddp_port_of_the_proxy", "commit " + hexes(40), "sha256:" + hexes(64), "sig=short&x=1", "1/2 and 2/3: ratios",
    _UUID, "API-GATEWAY-FOR-INTERNAL-SERVICES", "dp.st. and dp.pt. are prefixes", "tskey-auth is the prefix",
    "pdus+ is a prefix", "nf_conntrack_max=262144", "vc_redist.x64.exe",
    "fig_1a_of_the_paper_of_2024_which_shows_the_pond", "glc_build", "CCIP",
]  # fmt: skip


@pytest.mark.parametrize("around", ["{}", "It is {}, keep it.", '{{"text": "first\\n{}"}}', "(`{}`)"])
def test_a_token_of_an_issuer_is_taken_out_whole(around: str) -> None:
    for kind, token in CASES:
        text = Redaction().of_text(around.format(token))
        assert "[redacted: " in text, (kind, token)
        assert token.rstrip('"}')[-8:] not in text, (kind, token)


def test_every_issuer_of_the_list_has_a_token_here() -> None:
    assert {issuer.kind for issuer in ISSUERS} - TOKENS.keys() == set()
    assert len(CASES) >= 120


def test_what_only_begins_as_a_token_stays() -> None:
    assert [text for text in NONE_OF_THEM if Redaction().of_text(text) != text] == []
