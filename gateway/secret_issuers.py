"""Find tokens that issuers made, by the form that each of them gives its own: `ghp_...` is one of GitHub's.

Issuers and prefixes come from the rules of gitleaks (2026-07-22) and the detectors of trufflehog (2026-08-21), for
tokens that are known by their form alone; the others from the issuers' documentation of 2026. Renew it by comparing
with newer rules; tests/gateway/test_secret_issuers.py names every issuer.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from engramq.schemas.ids import TOKEN_PREFIX
from engramq.schemas.patterns import compile_late


class Issuer(NamedTuple):
    """Kind of a token, prefix (a pattern of the prefix alone), least characters behind it.

    These are fewer than are issued, so that a token that was cut is found too: letters, digits, - and _, and of base64
    +, / and = as well.
    """

    kind: str
    prefix: str
    least: int
    is_base64: bool = False


def _all_of(size: int, chars: str = "A-Za-z0-9") -> str:
    """Return a pattern that holds where exactly so many of these characters stand."""
    return rf"(?=[{chars}]{{{size}}}(?![\w-]))"


ISSUERS: Final = (
    Issuer("engramq Token", re.escape(TOKEN_PREFIX), 40),
    # Models
    Issuer("Anthropic Token", r"sk-ant-", 20),
    Issuer("OpenAI Token", r"sk-(?:proj|svcacct|admin|None)-", 20),
    Issuer("OpenRouter Token", r"sk-or-v\d-", 32),
    Issuer("Langfuse Token", r"sk-lf-", 30),
    Issuer("OpenAI Token", r"sk-(?=[A-Za-z0-9]{40})", 40),  # before 2024
    Issuer("OpenAI Token", r"sk-(?=[\w\-]{20,99}?T3BlbkFJ)", 40),
    Issuer("DeepSeek Token", r"sk-" + _all_of(32, "0-9a-f"), 32),
    Issuer("ElevenLabs Token", r"sk_(?=[0-9a-f]{40})", 40),
    Issuer("Perplexity Token", r"pplx-", 32),
    Issuer("Hugging Face Token", r"hf_|api_org_", 30),
    Issuer("Groq Token", r"gsk_", 40),
    Issuer("xAI Token", r"xai-", 40),
    Issuer("Replicate Token", r"r8_", 30),
    Issuer("NVIDIA Token", r"nvapi-", 40),
    Issuer("Cerebras Token", r"csk-", 40),
    Issuer("Together Token", r"tgp_v1_", 40),
    Issuer("Jina Token", r"jina_", 40),
    Issuer("RunPod Token", r"rpa_", 36),
    Issuer("Tavily Token", r"tvly-", 20),
    Issuer("Firecrawl Token", r"fc-" + _all_of(32, "0-9a-f"), 32),
    Issuer("Pinecone Token", r"pcsk_", 40),
    Issuer("LangSmith Token", r"lsv2_(?:pt|sk)_", 30),
    Issuer("Apify Token", r"apify_api_", 30),
    # Clouds and hosts
    Issuer("AWS Access Key", r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)(?=[A-Z0-9]{16})", 16),
    Issuer("AWS Bedrock Key", r"ABSK(?=[A-Za-z0-9+/]{80})|bedrock-api-key-", 40, is_base64=True),
    Issuer("Google API Key", r"AIza", 30),
    Issuer("Google OAuth Secret", r"GOCSPX-|ya29\.|1//0", 20),
    Issuer("Azure DevOps Token", r"(?=[A-Za-z0-9]{60,99}AZDO[A-Za-z0-9]{4})", 60),
    Issuer("Alibaba Access Key", r"LTAI(?=[A-Za-z0-9]{12})", 12),
    Issuer("DigitalOcean Token", r"do[opr]_v1_", 40),
    Issuer("Cloudflare Token", r"cf(?:[ua]t|k)_|v1\.0-(?=[0-9a-f]{24}-)", 40),
    Issuer("Heroku Token", r"HRKU-", 30),
    Issuer("Fly.io Token", r"fo1_", 40),
    Issuer("Fly.io Token", r"fm1[ar]_|fm2_", 80, is_base64=True),
    Issuer("Vercel Token", r"vc[aciprk]{1,2}_", 24),
    Issuer("Netlify Token", r"nf[bcopu]_", 36),
    Issuer("Render Token", r"rnd_", 24),
    Issuer("Scalingo Token", r"tk-us-", 40),
    Issuer("Pulumi Token", r"pul-(?=[0-9a-f]{40})", 40),
    Issuer("Prefect Token", r"pnu_", 36),
    Issuer("OpenShift Token", r"sha256~", 40),
    Issuer("Tailscale Key", r"tskey-[a-z]{2,10}-", 12),
    Issuer("Octopus Deploy Key", r"API-" + _all_of(26, "A-Z0-9"), 26),
    Issuer("Harness Token", r"(?:pat|sat)\.(?=[\w-]{22}\.[A-Za-z0-9]{24}\.)", 22),
    Issuer("Databricks Token", r"dapi(?=[0-9a-f]{32})", 32),
    Issuer("Deno Token", r"dd[pw]_" + _all_of(36), 36),
    Issuer("Portainer Token", r"ptr_", 40, is_base64=True),
    Issuer("SaladCloud Key", r"salad_cloud_\w{1,7}_", 7),
    Issuer("Defined Networking Key", r"dnkey-(?=[\w=\-]{26}-)", 60),
    Issuer("Yandex Cloud Token", r"t1\.(?=[\w-]{8,99}=?=?\.[\w-]{80})", 8),
    Issuer("Yandex Cloud Key", r"AQVN(?=[\w-]{35,38}(?![\w-]))", 35),
    Issuer("Yandex Cloud Key", r"YC" + _all_of(38, r"\w-"), 38),
    # Databases and back ends
    Issuer("Supabase Token", r"sbp_|sb_secret_", 20),
    Issuer("PlanetScale Token", r"pscale_(?:tkn|oauth|pw)_", 30),
    Issuer("Neon Token", r"napi_", 40),
    Issuer("ClickHouse Key", r"4b1d" + _all_of(38), 38),
    Issuer("HashiCorp Vault Token", r"hv[sbr]\.", 24),
    Issuer("Terraform Token", r"[A-Za-z0-9]{14}\.atlasv1\.", 40),
    Issuer("Doppler Token", r"dp\.(?:ct|pt|st(?:\.[a-z0-9_-]{2,35})?|sa|scim|audit)\.", 36),
    Issuer("MaxMind Key", r"[A-Za-z0-9]{6}_(?=[A-Za-z0-9]{29}_mmk)", 33),
    Issuer("1Password Token", r"ops_eyJ", 80, is_base64=True),
    Issuer("1Password Key", r"A3-(?=[A-Z0-9]{6}-[A-Z0-9]{5})", 26),
    Issuer("Age Secret Key", r"AGE-SECRET-KEY-1", 50),
    # Code, packages and builds
    Issuer("GitHub Token", r"github_pat_|gh[pousr]_", 22),
    Issuer("GitLab Token", r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct)-|GR1348941", 20),
    Issuer("Bitbucket Token", r"ATBB(?=[A-Za-z0-9]{20})", 24),
    Issuer("Atlassian Token", r"AT(?:ATT|CTT)3x", 40),
    Issuer("Bitbucket Data Center Token", r"BBDC-", 40, is_base64=True),
    Issuer("NPM tokens", r"npm_", 30),
    Issuer("PyPI Token", r"pypi-AgE", 40),
    Issuer("RubyGems Token", r"rubygems_", 40),
    Issuer("crates.io Token", r"cio" + _all_of(32), 32),
    Issuer("Clojars Token", r"CLOJARS_", 50),
    Issuer("Docker Token", r"dckr_(?:pat|oat)_", 20),
    Issuer("Artifactory Credentials", r"AKC(?=[a-zA-Z0-9]{10})(?=[a-zA-Z]{0,99}\d)", 10),
    Issuer("Artifactory Credentials", r"AP[\dA-F](?=[a-zA-Z0-9]{8})(?=[a-zA-Z]{0,99}\d)", 8),
    Issuer("Artifactory Credentials", r"cmVmd(?=[A-Za-z0-9]{55})", 55),
    Issuer("Sourcegraph Token", r"sgp_", 40),
    Issuer("Buildkite Token", r"bkua_", 40),
    Issuer("CircleCI Token", r"CCI(?:PAT|PRJ)_", 30),
    Issuer("Sourcegraph Token", r"slk_(?=[0-9a-f]{40})", 40),
    Issuer("SonarQube Token", r"sq[apu]_(?=[0-9a-f]{40})|sqco_(?=[A-Za-z0-9]{50})", 40),
    Issuer("Endor Labs Key", r"endr\+", 16),
    Issuer("TruffleHog Key", r"thog-(?:key|secret)-", 16),
    Issuer("Infracost Key", r"ico-" + _all_of(32), 32),
    Issuer("ReadMe Key", r"rdme_", 50),
    Issuer("Postman API Key", r"PMAK-", 24),
    # What is watched
    Issuer("Datadog Key", r"ddapp_", 30),
    Issuer("New Relic Key", r"NR(?:AK|II|IQ|BR|RA|JS)-", 16),
    Issuer("New Relic Key", r"(?=[0-9a-f]{32}FFFFNRAL)", 40),
    Issuer("Grafana Token", r"glsa_", 32),
    Issuer("Grafana Token", r"glc_|eyJrIjoi", 32, is_base64=True),
    Issuer("Sentry Token", r"sntryu_", 40),
    Issuer("Sentry Token", r"sntrys_", 60, is_base64=True),
    Issuer("PagerDuty Key", r"pdu[a-z]\+", 16, is_base64=True),
    Issuer("Dynatrace Token", r"dt0[cs]\d\d\.", 20),
    Issuer("PostHog Key", r"ph[sx]_", 30),
    Issuer("FullStory Key", r"na1\.(?=[A-Za-z0-9+/]{80})", 80, is_base64=True),
    Issuer("Rootly Key", r"rootly_(?=[0-9a-f]{40})", 40),
    Issuer("Adafruit Key", r"aio_" + _all_of(28), 28),
    Issuer("Ubidots Token", r"BBFF-" + _all_of(30), 30),
    # What people work with
    Issuer("Slack Token", r"xapp-\d-|xox[abceoprs]-(?:\d+-)?|xoxe\.xox[bp]-\d-", 8),
    Issuer("Notion Token", r"ntn_", 40),
    Issuer("Notion Token", r"secret_" + _all_of(43), 43),
    Issuer("Figma Token", r"fig(?:[dp]|[uo][rh]?)_", 36),
    Issuer("Airtable Token", r"pat(?=[A-Za-z0-9]{14}\.[0-9a-f]{40})", 14),
    Issuer("Linear API Key", r"lin_(?:api|oauth)_", 32),
    Issuer("HubSpot Token", r"pat-(?:na|eu|ap)\d-", 32),
    Issuer("Frame.io Token", r"fio-u-", 40),
    Issuer("Adobe Secret", r"p8e-", 32),
    Issuer("Contentful Token", r"CFPAT-", 40),
    Issuer("Typeform Token", r"tfp_", 40),
    Issuer("ClickUp Token", r"pk_(?=\d{7,9}_[0-9A-Z]{32})", 40),
    Issuer("Teamwork Token", r"tkn\.v1_", 60),
    Issuer("Storyblok Token", r"[0-9A-Za-z]{22}tt-\d{6}-", 20),
    Issuer("Bannerbear Key", r"bb_(?:pr|ma)_(?=[0-9a-f]{30})", 30),
    Issuer("PhotoRoom Key", r"sk_pr_(?=[A-Za-z0-9]{1,64}_[0-9a-f]{40})", 42),
    Issuer("Zoho Token", r"1000\.(?=[0-9a-f]{32}\.[0-9a-f]{32})", 32),
    Issuer("Close Key", r"api_(?=[A-Za-z0-9]{20,24}\.[A-Za-z0-9]{20,24}(?![\w-]))", 20),
    Issuer("Dropbox Token", r"sl\.(?:u\.)?(?=[\w=\-]{100})", 100),
    Issuer("Authress Key", r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-]", 10),
    Issuer("42 Secret", r"[su]-s4t2(?:ud|af)-", 40),
    Issuer("Mapbox Token", r"sk\.(?=eyJ)", 40),
    Issuer("Discord Bot Token", r"[MNO](?=[\w\-]{23,25}\.[\w\-]{6}\.[\w\-]{27})", 23),
    # Mail, messages and money
    Issuer("SendGrid API Key", r"SG\.(?=[\w\-]{16,64}\.)", 16),
    Issuer("Mailgun Key", r"key-" + _all_of(32, "0-9a-z"), 32),
    Issuer("Resend Key", r"re_(?=[A-Za-z0-9]{8}_[A-Za-z0-9]{20})", 24),
    Issuer("Mailgun Key", r"[a-h0-9]{32}-[a-h0-9]{8}-(?=[a-h0-9]{8}(?![\w-]))", 8),
    Issuer("Klaviyo Key", r"pk_(?:[A-Za-z0-9]{6}_)?" + _all_of(34, "0-9a-f"), 34),
    Issuer("PubNub Key", r"(?:pub|sub)-c-(?=[0-9a-f]{8}-)", 36),
    Issuer("Brevo Key", r"xkeysib-", 40),
    Issuer("Twilio API Key", r"(?:AC|SK)(?=[a-z0-9]{32})", 32),
    Issuer("Stripe Access Key", r"(?:sk|rk)_(?:live|test|prod)_|whsec_", 16),
    Issuer("Square Token", r"EAAA(?=[\w-]{40})|sq0[aci][a-z]{2}-", 22),
    Issuer("Facebook Token", r"EAA[A-Z](?=[A-Za-z0-9]{80})", 80),
    Issuer("Shopify Token", r"shp(?:at|ca|pa|ss)_", 32),
    Issuer("Shippo Token", r"shippo_(?:live|test)_", 36),
    Issuer("EasyPost Key", r"EZ[AT]K(?=[A-Za-z0-9]{50})", 50),
    Issuer("Stripe Payment Secret", r"pi_[A-Za-z0-9]{24}_secret_", 20),
    Issuer("Checkout Key", r"sk_(?:test_)?(?=[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", 36),
    Issuer("Lob Key", r"(?:live|test)_" + _all_of(35, "0-9a-f"), 35),
    Issuer("GoCardless Token", r"live_" + _all_of(40, r"\w-"), 40),
    Issuer("Pagar.me Key", r"ak_live_", 30),
    Issuer("Ramp Secret", r"ramp_sec_", 40),
    Issuer("Robinhood Key", r"rh-api-(?=[0-9a-f]{8}-)", 36),
    Issuer("Fleetbase Key", r"flb_live_", 20),
    Issuer("Flexport Token", r"shltm_", 40),
    Issuer("Alchemy Key", r"alcht_" + _all_of(30), 30),
    Issuer("Scrapfly Key", r"scp-(?:live|test)-", 30),
    Issuer("Razorpay Key", r"rzp_live_", 14),
    Issuer("Plaid Token", r"access-(?:sandbox|development|production)-(?=[0-9a-f]{8}-)", 36),
    Issuer("Duffel Token", r"duffel_(?:live|test)_", 40),
    Issuer("Flutterwave Key", r"FLWSECK(?:_TEST)?-", 12),
    Issuer("SettleMint Token", r"sm_[aps]at_", 16),
)  # fmt: skip
_WORD: Final = r"[\w\-]"
_BASE64: Final = r"[\w\-+/=]"
# A prefix begins a word (also behind \n in JSON), and its token goes to that word's end, dots between included. Each
# place is begun at once, and what was begun is not gone through again: hence the possessive quantifiers.
_TOKEN: Final = compile_late(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:"
    + "|".join(
        rf"(?P<k{number}>(?:{each.prefix}){_BASE64 if each.is_base64 else _WORD}{{{each.least},}}+)"
        for number, each in enumerate(ISSUERS)
    )
    + r")(?:\.[\w\-]++)*+",
    re.ASCII,
)
_DIGIT: Final = compile_late(r"\d")
# Where a token may be at all: few words of a text are so long, and only these are gone through for every prefix.
_LONG: Final = compile_late(r"[\w\-.~+/=]{11,}+", re.ASCII)


def is_random(token: str) -> bool:
    """Say whether a token may be one: npm_config_registry_of_this_folder is none."""
    return not (token.islower() or token.isupper()) or _DIGIT.search(token) is not None


def issued_in(text: str) -> Iterator[tuple[int, int, str]]:
    """Give the places and kinds of tokens of issuers."""
    for run in _LONG.finditer(text):
        for found in _TOKEN.finditer(text, run.start(), run.end()):
            name = found.lastgroup or ""
            if is_random(found[name]):
                yield found.start(), found.end(), ISSUERS[int(name[1:])].kind
