"""Who comes in at the page, and whose forms count."""

import os
import re

import pytest
from redis.asyncio import Redis

from engramq.gateway.limits import ATTEMPT_BURST
from engramq.gateway.ui.page import HEADERS, POLICY, VIEWS
from engramq.gateway.ui.request import FORM_BYTES, PAGE_TOOLS
from engramq.gateway.ui.sign_in import COOKIE, PAGES_OF_ONE, SECURE_COOKIE
from engramq.schemas.commands import OPERATOR_TOOLS, TOOLS
from engramq.schemas.ids import TOKEN_PREFIX, token_digest
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import GUARDS
from tests.deploy.helpers import OTHER, needs_root
from tests.gateway.test_local_peer import asked_as, request_of
from tests.gateway.ui.browsing import Browser, Shown
from tests.gateway.ui.conftest import Served, served

pytestmark = pytest.mark.promise("OP-12")

UNKNOWN = TOKEN_PREFIX + "u" * 43
ID = "01a2049f-a8df-7000-a158-b088a877225a"


def address(path: str) -> str:
    return "/ui" + re.sub(r"{\w+}", ID, path)


async def test_without_a_token_there_is_nothing_but_the_form_that_takes_one(here: Served) -> None:
    browser = await here.browser()
    for path, method, _ in VIEWS:
        if method == "GET":
            page = await browser.get(address(path))
            assert (page.path, page.status) == ("/ui/sign-in", 200), path
        else:
            form_token = (await browser.get("/ui/sign-in")).form("/ui/sign-in").fields["form_token"]
            answer = await browser.client.post(
                address(path), data={"form_token": form_token}, headers={"origin": browser.origin}
            )
            assert answer.url.path == "/ui/sign-in", path
    assert (await browser.get("/ui/nothing/here")).path == "/ui/sign-in"


async def test_a_good_token_lets_in_and_a_bad_one_does_not(here: Served) -> None:
    browser = await here.browser()
    for bad in (UNKNOWN, "nonsense", "", here.secrets["ada"] + "x"):
        page = await browser.sign_in(bad)
        assert (page.status, page.path) == (401, "/ui/sign-in")
        assert "unknown, expired, revoked" in page.text
    asked = await browser.get("/ui/memories")
    assert asked.form("/ui/sign-in").fields["next"] == "/ui/memories"
    page = await browser.send(asked, "/ui/sign-in", token=here.secrets["ada"])
    assert (page.status, page.path) == (200, "/ui/memories")


async def test_signing_in_leads_to_no_other_place_than_the_page(here: Served) -> None:
    for place in (
        "//evil.example",
        "https://evil.example/ui",
        "/mcp",
        "/ui//evil.example",
        "/ui/../mcp?x=1",
        "/ui/../v1/x",
    ):
        browser = await here.browser()
        form = await browser.get("/ui/sign-in", next=place)
        assert form.form("/ui/sign-in").fields["next"] == "/ui"
        assert (await browser.send(form, "/ui/sign-in", token=here.secrets["ada"], next=place)).path == "/ui"


async def test_the_cookie_is_for_this_page_alone_and_redis_has_no_token(here: Served, settings: Settings) -> None:
    browser = await here.browser()
    shown = await browser.get("/ui/sign-in")
    browser.client.follow_redirects = False
    answer = (await browser.send(shown, "/ui/sign-in", token=here.secrets["ada"])).response
    (given,) = answer.headers.get_list("set-cookie")
    assert {part.strip().lower() for part in given.split(";")[1:]} == {
        "httponly",
        "samesite=strict",
        "path=/ui",
        "max-age=43200",
    }
    cookie = given.partition(";")[0].partition("=")[2]
    redis = Redis.from_url(settings.redis_url)
    kept = [key async for key in redis.scan_iter(f"{settings.key_prefix}:page-session:*")]
    everything = b"".join([key + (await redis.get(key)) for key in kept])
    await redis.aclose()
    assert len(kept) == 1
    for secret in (here.secrets["ada"], here.secrets["ada"][8:20], token_digest(here.secrets["ada"]), cookie):
        assert secret.encode() not in everything


async def test_signing_out_ends_a_copied_cookie_too(here: Served) -> None:
    browser, thief = await here.browser("ada"), await here.browser()
    thief.client.cookies = browser.client.cookies
    assert (await thief.get("/ui/inbox")).path == "/ui/inbox"
    assert (await browser.send(await browser.get("/ui"), "/ui/sign-out")).path == "/ui/sign-in"
    assert (await thief.get("/ui/inbox")).path == "/ui/sign-in"


@needs_root
async def test_a_cookie_that_another_account_has_taken_opens_nothing(here: Served, browser: Browser) -> None:
    """Security finding 9: browsers send the cookie to every port of the host, so to servers of other accounts too."""
    cookie = f"{COOKIE}={browser.client.cookies[COOKIE]}"

    async def location(uid: int) -> tuple[int, bool]:
        request = request_of("GET", "/ui/tokens", cookie=cookie, accept="text/html")
        status, body = await asked_as(uid, here.port, request)
        return status, "/ui/tokens" in body

    assert await location(os.geteuid()) == (200, True)
    assert await location(OTHER) == (303, False)
    assert (await browser.get("/ui/tokens")).path == "/ui/tokens", "and ends nothing"


async def test_under_https_the_cookie_is_one_that_no_sibling_host_can_set(settings: Settings) -> None:
    async with served(settings, public_url="https://memory.example") as here:
        browser = await here.browser()
        answer = await browser.client.get("/ui/sign-in")
        (given,) = answer.headers.get_list("set-cookie")
        value, *rest = (part.strip() for part in given.split(";"))
        assert value.startswith(f"{SECURE_COOKIE}=")
        assert {part.lower() for part in rest} == {"httponly", "samesite=strict", "path=/", "max-age=43200", "secure"}
        again = await browser.client.get("/ui/sign-in", headers={"cookie": value})
        assert "set-cookie" not in again.headers
        planted = await browser.client.get("/ui/sign-in", headers={"cookie": value.removeprefix("__Host-")})
        assert planted.headers["set-cookie"].startswith(f"{SECURE_COOKIE}=")


async def test_a_session_has_another_cookie_than_the_form_it_began_with(here: Served) -> None:
    browser = await here.browser()
    await browser.get("/ui/sign-in")
    before = browser.client.cookies[COOKIE]
    await browser.sign_in(here.secrets["ada"])
    assert browser.client.cookies[COOKIE] != before


async def test_forms_count_only_from_the_page_that_showed_them(here: Served) -> None:
    memory = (await (await here.agent("ada")).store("To be archived"))["id"]
    browser, other = await here.browser("ada"), await here.browser("grace")
    page = await browser.get(f"/ui/memories/{memory}")
    action = f"/ui/memories/{memory}/forget"
    foreign = (await other.get(f"/ui/memories/{memory}")).form(action).fields["form_token"]

    async def refused(headers: dict[str, str], **values: str) -> None:
        answer = await browser.send(page, action, headers, **values)
        assert answer.status == 403, (headers, values)
        assert "not from a page that you were shown" in answer.text

    await refused({}, form_token="")
    await refused({}, form_token="0" * 64)
    await refused({}, form_token=foreign)
    for origin in ("null", "http://127.0.0.1:1", "http://localhost:8765", "http://evil.example"):
        answer = await browser.send(page, action, {"origin": origin})
        assert answer.status == 403, origin
    without = Shown.of(await browser.client.post(action, data=page.form(action).fields))
    assert without.status == 403
    assert (await browser.get(f"/ui/memories/{memory}")).has_form(action)
    assert "is archived" in (await browser.send(page, action)).text


@pytest.mark.parametrize("path", ["/ui/system", "/ui/system/live"])
async def test_queues_which_are_those_of_all_namespaces_are_for_administrators(here: Served, path: str) -> None:
    for name, sees in (("ada", True), ("reader", False)):
        text = (await (await here.browser(name)).get(path)).text
        assert ("Mailbox Waiting Oldest" in text) is sees, name
        assert "Everything works" in text or "It works" in text


async def test_every_answer_carries_the_policy_and_no_page_is_kept(browser: Browser) -> None:
    shown = await browser.get("/ui")
    files = [
        given[name]
        for tag, given in shown.reader.elements
        for name in ("src", "href")
        if given.get(name, "").startswith("/ui/static/")
    ]
    assert len(files) >= 5
    for path in ("/ui", "/ui/", "/ui/memories", "/ui/nothing", "/ui/static/x/page.css", "/ui/sign-in", *files):
        answer = await browser.client.get(path)
        for name, value in {**HEADERS, **dict(GUARDS)}.items():
            assert answer.headers[name] == value, path
        assert ("immutable" in answer.headers["cache-control"]) == (path in files)
        assert answer.status_code == (404 if path.endswith(("nothing", "x/page.css")) else 200), path
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


async def test_no_markup_has_a_script_a_style_or_an_address_elsewhere(here: Served, browser: Browser) -> None:
    await (await here.agent("ada")).store("Ada drinks tea")
    for path, method, _ in VIEWS:
        if method == "POST" or "{" in path or path.endswith("data"):
            continue
        page = await browser.get(address(path))
        for tag, given in page.reader.elements:
            assert tag != "style"
            assert tag != "script" or given.get("src", "").startswith("/ui/static/")
            assert "style" not in given
            assert not [name for name in given if name.startswith(("on", "hx-on"))]
            assert all("//" not in given.get(name, "") for name in ("src", "href", "action"))


async def test_a_revoked_token_ends_its_sessions(here: Served) -> None:
    admin, browser = await here.browser("ada"), await here.browser()
    tokens = await admin.get("/ui/tokens")
    gone = await admin.send(tokens, f"/ui/tokens/{here.ids['reader']}/revoke")
    assert "counts no longer" in gone.text
    assert (await browser.sign_in(here.secrets["reader"])).status == 401


@pytest.fixture
def no_time_for_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time give no attempts back: a busy machine needs seconds for each."""
    monkeypatch.setattr("engramq.gateway.limits.ATTEMPT_RATE", 0.001)


@pytest.mark.usefixtures("no_time_for_attempts")
async def test_too_many_bad_tokens_are_refused_for_a_while(here: Served) -> None:
    browser = await here.browser()
    shown = await browser.get("/ui/sign-in")
    for _ in range(40):
        page = await browser.send(shown, "/ui/sign-in", token=UNKNOWN)
        if page.status == 429:
            break
    assert page.status == 429
    assert int(page.response.headers["retry-after"]) >= 1


@pytest.mark.usefixtures("no_time_for_attempts")
async def test_a_principal_is_signed_in_in_so_many_browsers_and_signs_in_so_often(
    here: Served, settings: Settings
) -> None:
    """Security finding 4: each sign-in with a good token is kept for 12 hours."""
    first, second, other = await here.browser("reader"), await here.browser("reader"), await here.browser("grace")
    await first.send(await first.get("/ui"), "/ui/sign-out")  # makes room for one
    newcomer = await here.browser()
    for _ in range(PAGES_OF_ONE - 1):
        assert (await newcomer.sign_in(here.secrets["reader"])).path == "/ui"
        newcomer.client.cookies.clear()
    assert (await second.get("/ui")).path == "/ui"
    assert (await newcomer.sign_in(here.secrets["reader"])).path == "/ui"
    assert (await second.get("/ui")).path == "/ui/sign-in", "the oldest has gone"
    async with Redis.from_url(settings.redis_url) as redis:
        kept = [key async for key in redis.scan_iter(f"{settings.key_prefix}:page-session:*")]
    assert len(kept) == PAGES_OF_ONE + 1

    for _ in range(int(ATTEMPT_BURST)):
        newcomer.client.cookies.clear()
        page = await newcomer.sign_in(here.secrets["reader"])
        if page.status == 429:
            break
    assert (page.status, "signs in too often" in page.text) == (429, True)
    assert int(page.response.headers["retry-after"]) >= 1
    assert (await other.get("/ui")).path == "/ui"
    assert (await here.browser("ada")) is not None, "others sign in"


async def test_without_authentication_the_owner_needs_no_token_but_forms_do(settings: Settings) -> None:
    async with served(settings, auth="none") as here:
        browser = await here.browser()
        page = await browser.get("/ui")
        assert (page.path, page.status) == ("/ui", 200)
        assert not page.has_form("/ui/sign-out")
        tokens = await browser.get("/ui/tokens")
        assert "asks for no tokens" in tokens.text
        answer = await browser.send(tokens, "/ui/tokens", form_token="", principal="x", scopes="read", days="7")
        assert answer.status == 403


async def test_a_browser_at_the_bare_address_is_led_to_the_page_and_nobody_else(settings: Settings) -> None:
    html = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for auth, others in (("none", 404), ("token", 401)):
        async with served(settings, auth=auth) as here, Browser.on(here.port) as browser:
            led = await browser.client.get("/", headers=html, follow_redirects=False)
            assert (led.status_code, led.headers["location"], led.headers["vary"]) == (307, "/ui", "accept")
            assert (await browser.get("/")).status == others, "a program"
            for accept in ("*/*", "application/json, text/event-stream"):
                probe = await browser.client.get("/", headers={"accept": accept}, follow_redirects=False)
                assert probe.status_code == others
            posted = await browser.client.post("/", headers=html, follow_redirects=False)
            assert posted.status_code == others


def test_what_only_people_have_is_no_tool_of_mcp() -> None:
    own = set(PAGE_TOOLS) - set(TOOLS)
    of_commands = {tool.name for tool in OPERATOR_TOOLS} - set(TOOLS)
    counts = {"count_facets", "count_memories"}
    lists = {"draw_graph", "list_imports", "list_nodes", "list_shown_often", "list_tokens"}
    assert own == counts | lists | {"create_token", "export_tenant", "revoke_token"} | of_commands
    assert set(TOOLS) < set(PAGE_TOOLS)


async def test_a_form_is_bounded_and_its_origin_is_checked_before_its_body(here: Served) -> None:
    """Security finding 2: nobody needs a token to send forms."""
    browser = await here.browser()
    form = (await browser.get("/ui/sign-in")).form("/ui/sign-in").fields
    large = {**form, "token": "%" * (FORM_BYTES // 3)}  # each is sent as %25
    own = {"origin": browser.origin}
    answer = await browser.client.post("/ui/sign-in", data=large, headers=own)
    assert (answer.status_code, "at most 65536 bytes" in answer.text) == (400, True)
    fits = {**large, "token": "%" * (FORM_BYTES // 3 - 100)}
    assert (await browser.client.post("/ui/sign-in", data=fits, headers=own)).status_code == 401

    foreign = {"origin": "http://evil.example"}
    for body in (large, {}):  # neither its size nor its type is looked at
        assert (await browser.client.post("/ui/sign-in", data=body, headers=foreign)).status_code == 403
