"""How HTTP callers prove who they are is said by the `engramq up` that asks for HTTP, to the HTTP gateway alone."""

from engramq.deploy.local import settings
from engramq.deploy.local.home import Home
from engramq.deploy.local.supervisor.stack import default_stack
from engramq.schemas.settings import SETTINGS

OF_HTTP = ("auth", "host", "port", "public_url", "allowed_hosts", "allowed_origins", "trusted_proxies", "jwt_")
EVERYTHING = {setting.variable: f"value of {setting.field}" for setting in SETTINGS} | {settings.PORT: "0"}


def test_the_settings_of_http_are_handed_to_its_gateway() -> None:
    wanted = {setting.variable for setting in SETTINGS if setting.field.startswith(OF_HTTP)}
    assert set(settings.for_http(EVERYTHING)) == wanted | settings.PERSONAL
    assert not wanted & set(settings.of_stack(EVERYTHING))


def test_other_processes_of_the_stack_do_not_get_them(home: Home) -> None:
    environment = {**EVERYTHING, settings.HOST: "127.0.0.1", settings.DATABASE_URL: "", settings.REDIS_URL: ""}
    stack = default_stack(home, environment)
    started = {service.name: service.launch().environment for service in stack.services if service.name == "gateway"}
    assert not settings.FOR_HTTP & set(started["gateway"])
    assert stack.http is not None
    service, _ = stack.http(settings.for_http(environment))
    assert service.launch().environment[settings.AUTH] == "value of auth"
