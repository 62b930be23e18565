"""The Helm chart: what it renders is valid, safe, and hangs together; values that would be ignored are refused."""

import json
import re
from pathlib import Path

import pytest
import yaml

from engramq.deploy.local.settings import PREFIX, SECRETS
from tests.deploy.manifests.conftest import CHART, VALUE_FILES, Object, objects, rendered, run, tool

pytestmark = pytest.mark.promise("OP-8", "SC-11")

# The oldest that the chart takes, and the newest that the validator knows.
KUBERNETES = ("1.30", "1.37")
SCALED = "keda.enabled=true,keda.prometheusUrl=http://prometheus:9090,metrics.enabled=true"
CUSTOM = ("keda.sh", "monitoring.coreos.com")


def pods(found: list[Object]) -> dict[str, Object]:
    """Return the pod templates by the name of what makes them."""
    return {
        each["metadata"]["name"]: each["spec"]["template"] for each in found if each["kind"] in ("Deployment", "Job")
    }


def of_kind(found: list[Object], kind: str) -> list[Object]:
    return [each for each in found if each["kind"] == kind]


def selects(labels: dict[str, str], template: Object) -> bool:
    return set(labels.items()) <= set(template["metadata"]["labels"].items())


def secrets(template: Object) -> dict[str, str]:
    """Return the secrets that a pod's settings come from, by variable or by the file that stands for one."""
    [container] = template["spec"]["containers"]
    by_variable = {
        each["name"]: each["valueFrom"]["secretKeyRef"]["name"]
        for each in container["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }
    mounted = [each for each in template["spec"]["volumes"] if each["name"] == "secrets"]
    return by_variable | {
        item["path"]: source["secret"]["name"]
        for volume in mounted
        for source in volume["projected"]["sources"]
        for item in source["secret"]["items"]
    }


def of_role(found: list[Object], role: str) -> list[Object]:
    """Return the pod templates whose container has this name."""
    return [pod for pod in pods(found).values() if pod["spec"]["containers"][0]["name"] == role]


@pytest.mark.parametrize("values", VALUE_FILES, ids=lambda path: path.stem)
def test_helm_has_nothing_to_say_against_the_chart(values: Path) -> None:
    done = run([tool("helm"), "lint", "--strict", "--values", values, CHART])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_one_of_this_version_of_kubernetes(release: str, version: str, tmp_path: Path) -> None:
    ours = tmp_path / "objects.yaml"
    ours.write_text(release)
    done = run([tool("kubernetes-validate"), "--strict", "-k", version, ours])
    assert done.returncode == 0, done.stdout + done.stderr
    told = (done.stdout + done.stderr).splitlines()
    unknown = [line for line in told if "passed" not in line and "kind ScaledObject" not in line]
    assert [line for line in unknown if "kind ServiceMonitor" not in line] == []
    builtin = [each for each in objects(release) if not each["apiVersion"].startswith(CUSTOM)]
    assert sum("passed" in line for line in told) == len(builtin)


def test_kubectl_reads_every_object_that_is_its_own(release: str) -> None:
    text = "---\n".join(
        json.dumps(each) + "\n" for each in objects(release) if not each["apiVersion"].startswith(CUSTOM)
    )
    done = run([tool("kubectl"), "label", "--local", "--filename", "-", "read=yes", "--output", "name"], given=text)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == text.count('"apiVersion": ') - text.count("scaleTargetRef")


def compared(text: str, python: str) -> dict[str, list[str]]:
    done = run([python, Path(__file__).with_name("custom_objects.py")], given=text)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_objects_of_keda_and_of_the_operator_have_no_field_that_those_do_not_know(release: str, python: str) -> None:
    found = compared(release, python)
    assert found["problems"] == []
    custom = [each for each in objects(release) if each["apiVersion"].startswith(CUSTOM)]
    assert len(found["compared"]) == len(custom)


def test_every_deployment_of_workers_scales_by_depth_and_age_of_its_own_kinds() -> None:
    found = objects(rendered("--set", SCALED))
    scaled = {each["spec"]["scaleTargetRef"]["name"]: each["spec"] for each in of_kind(found, "ScaledObject")}
    workers = {name: pod for name, pod in pods(found).items() if pod["spec"]["containers"][0]["name"] == "worker"}
    assert scaled.keys() == workers.keys()
    for name, spec in scaled.items():
        depth, oldest = (trigger["metadata"]["query"] for trigger in spec["triggers"])
        kinds = "|".join(workers[name]["spec"]["containers"][0]["args"][1:])
        assert "engramq_mailbox_depth{" in depth
        assert "engramq_mailbox_oldest_seconds{" in oldest
        assert all(f'kind=~"{kinds}"' in query and 'namespace="memories"' in query for query in (depth, oldest))
        assert 1 <= spec["minReplicaCount"] <= spec["maxReplicaCount"]
    # KEDA sets the number of replicas: a number in the deployment would undo it at each upgrade.
    assert all("replicas" not in each["spec"] for each in of_kind(found, "Deployment") if "gateway" not in str(each))


def test_every_container_has_no_rights_and_writes_to_nothing_but_tmp(release: str) -> None:
    for name, template in pods(objects(release)).items():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["automountServiceAccountToken"] is False, name
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
            assert [path for path in writable if path != "/var/lib/engramq"] == ["/tmp"], name
            volumes = {volume["name"] for volume in spec["volumes"]}
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes, name
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
            assert "memory" in container["resources"]["limits"], name


def test_each_part_knows_the_secrets_that_it_needs_and_no_other(release: str) -> None:
    for name, template in pods(objects(release)).items():
        role = template["spec"]["containers"][0]["name"]
        optional = {"engramq-metrics", "engramq-webhooks"} | ({"engramq-embedder"} if role == "worker" else set())
        known = {each for each in secrets(template).values() if each.startswith("engramq-")} - optional
        wanted = {
            "gateway": {"engramq-redis"},
            "worker": {"engramq-redis", "engramq-database"},
            "migrate": {"engramq-database-owner"},
        }
        assert known == wanted[role], name


def test_selectors_find_their_pods(release: str) -> None:
    found = objects(release)
    templates = pods(found)
    for each in of_kind(found, "Deployment"):
        labels = each["spec"]["selector"]["matchLabels"]
        assert [name for name, pod in templates.items() if selects(labels, pod)] == [each["metadata"]["name"]]
    budgets = [each["spec"]["selector"]["matchLabels"] for each in of_kind(found, "PodDisruptionBudget")]
    for each in of_kind(found, "Deployment"):
        held = sum(selects(labels, each["spec"]["template"]) for labels in budgets)
        assert held == (0 if each["metadata"].get("annotations") == {"a": "b"} else 1)
    for each in of_kind(found, "Service"):
        chosen = [pod for pod in templates.values() if selects(each["spec"]["selector"], pod)]
        named = {port["name"] for pod in chosen for port in pod["spec"]["containers"][0].get("ports", [])}
        assert {port["targetPort"] for port in each["spec"]["ports"]} <= named


def test_network_policies_hold_each_pod_and_let_it_reach_what_it_needs(release: str) -> None:
    found = objects(release)
    policies = of_kind(found, "NetworkPolicy")
    if not policies:
        return
    for name, template in pods(found).items():
        [policy] = [each for each in policies if selects(each["spec"]["podSelector"]["matchLabels"], template)]
        reached = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]} - {53, 443}
        role = template["spec"]["containers"][0]["name"]
        assert reached == {"gateway": {6379}, "worker": {6379, 5432}, "migrate": {5432}}[role], name


def test_the_migration_needs_nothing_that_is_made_after_it(release: str) -> None:
    found = objects(release)
    made = {each["metadata"]["name"] for each in found if each["kind"] in ("ConfigMap", "Secret", "ServiceAccount")}
    for each in of_kind(found, "Job"):
        spec = each["spec"]["template"]["spec"]
        assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert spec.get("serviceAccountName") not in made
        assert "envFrom" not in spec["containers"][0]


def test_probes_ask_gateways_by_a_host_that_they_have_and_workers_where_they_tell_it(release: str) -> None:
    for role in ("gateway", "worker"):
        templates = of_role(objects(release), role)
        assert templates
        for template in templates:
            [container] = template["spec"]["containers"]
            probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
            assert [probe["path"] for probe in probes] == ["/healthz", "/healthz", "/readyz"]
            ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
            if role == "gateway":
                assert all(probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}] for probe in probes)
            else:
                variables = {each["name"]: each.get("value") for each in container["env"]}
                assert {probe["port"] for probe in probes} == {"health"}
                assert variables["ENGRAMQ_HEALTH_PORT"] == f"0.0.0.0:{ports['health']}"


def test_doctor_looks_for_a_gateway_in_the_pods_of_gateways_alone() -> None:
    """Runbooks begin with it, in a pod of workers: nothing else reaches PostgreSQL."""
    found = objects(rendered())
    [settings] = of_kind(found, "ConfigMap")
    assert int(settings["data"]["ENGRAMQ_PORT"]) > 0
    for role, port in (("gateway", None), ("worker", "0")):
        templates = of_role(found, role)
        assert templates
        for template in templates:
            variables = {each["name"]: each.get("value") for each in template["spec"]["containers"][0]["env"]}
            assert variables.get("ENGRAMQ_PORT") == port


FILES = Path(__file__).with_name("values") / "files.yaml"


def test_secrets_as_files_are_in_no_environment_and_where_their_variables_say() -> None:
    for name, template in pods(objects(rendered("--values", FILES))).items():
        [container] = template["spec"]["containers"]
        variables = {each["name"]: each for each in container["env"]}
        assert "ENGRAMQ_DATABASE_URL" not in variables, name
        assert {each["name"] for each in variables.values() if "secretKeyRef" in str(each)} <= {"OPENAI_API_KEY"}, name
        paths = {path for path in secrets(template) if path != "OPENAI_API_KEY"}
        assert paths
        told = {each for each in variables if each.endswith("_FILE")}
        assert told == {f"{path}_FILE" for path in paths}, name
        [mount] = [each for each in container["volumeMounts"] if each["name"] == "secrets"]
        for path in paths:
            assert variables[f"{path}_FILE"]["value"] == f"{mount['mountPath']}/{path}"


def test_every_secret_that_may_be_a_file_can_be_one_here() -> None:
    known = {f"{PREFIX}TOKEN"}  # of clients
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    [line] = [line for line in text.splitlines() if "if has . (list " in line]
    assert set(re.findall(r'"(ENGRAMQ_\w+)"', line)) == set(SECRETS) - known


def test_what_leads_to_the_database_or_to_webhooks_is_given_to_workers_alone() -> None:
    found = objects(rendered("--values", FILES))
    theirs = {"ENGRAMQ_EMBEDDER_KEY", "ENGRAMQ_WEBHOOKS_KEY", "OPENAI_API_KEY"}
    for role, has in (("gateway", set()), ("worker", theirs), ("migrate", set())):
        for template in of_role(found, role):
            assert secrets(template).keys() & theirs == has, role


def test_all_pods_have_the_certificates_and_workers_the_models() -> None:
    found = objects(rendered("--values", FILES))
    [settings] = of_kind(found, "ConfigMap")
    home = settings["data"]["ENGRAMQ_HOME"]
    for role in ("gateway", "worker", "migrate"):
        for template in of_role(found, role):
            mounts = {each["name"]: each for each in template["spec"]["containers"][0]["volumeMounts"]}
            assert mounts["certificates"]["mountPath"] == "/etc/engramq/certificates"
            assert mounts["zones"]["mountPath"] == "/usr/share/zoneinfo"
            assert (mounts["home"]["mountPath"] == home) if role == "worker" else ("home" not in mounts)


def test_what_an_operator_adds_to_one_part_is_in_that_part_alone() -> None:
    found = objects(rendered("--values", FILES))
    [gateway], [migrate] = of_role(found, "gateway"), of_role(found, "migrate")
    others = [*of_role(found, "worker"), migrate]
    assert "HTTPS_PROXY" in str(gateway["spec"]["containers"])
    assert all("HTTPS_PROXY" not in str(other) and "jwks" not in str(other) for other in others)
    assert migrate["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}
    assert all(pod["spec"].get("serviceAccountName") == "memories" for pod in (gateway, *others))
    assert gateway["spec"]["priorityClassName"] == "important"
    [spread] = gateway["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert selects(spread["labelSelector"]["matchLabels"], gateway)
    budgets = {
        each["metadata"]["name"]: each["spec"]["maxUnavailable"] for each in of_kind(found, "PodDisruptionBudget")
    }
    assert budgets == {
        "release-engramq-gateway": "50%",
        "release-engramq-embedding": 1,
        "release-engramq-background": 1,
    }


def test_every_value_has_a_rule() -> None:
    """A value that the schema does not know could be misspelt, and nobody would be told."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def known(given: Object, rule: Object, path: str) -> list[str]:
        rule = schema["definitions"][rule["$ref"].rpartition("/")[2]] if "$ref" in rule else rule
        rules = rule.get("properties", {})
        if rule.get("additionalProperties") is not False:
            return []
        return [f"{path}.{name}" for name in given if name not in rules] + [
            wrong
            for name, value in given.items()
            if isinstance(value, dict) and name in rules
            for wrong in known(value, rules[name], f"{path}.{name}")
        ]

    assert known(values, schema, "") == []


@pytest.mark.parametrize("part", ["gateway", "workers.recall", "migrate", "metrics.serviceMonitor"])
def test_labels_that_selectors_and_network_policies_go_by_are_the_charts_own(part: str) -> None:
    """Given twice, a key is no YAML or wins over ours, and a pod leaves its deployment or its network policy."""
    named = "labels" if part.endswith("Monitor") else "podLabels"
    for label in (
        *(f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "version", "managed-by")),
        *("helm.sh/chart", "engramq/part"),
    ):
        value = f"{part}.{named}.{label.replace('.', chr(92) + '.')}=web"
        done = run([tool("helm"), "template", "release", CHART, "--set", value])
        assert done.returncode != 0, label
        assert f"invalid propertyName '{label}'" in done.stderr


@pytest.mark.parametrize("part", ["gateway", "workers.recall"])
def test_the_annotation_that_makes_new_pods_for_new_settings_is_the_charts_own(part: str) -> None:
    """Given twice, a key is no YAML or wins over ours, and pods keep the settings that they began with."""
    done = run([tool("helm"), "template", "release", CHART, "--set", f"{part}.podAnnotations.checksum/settings=1"])
    assert done.returncode != 0
    assert "invalid propertyName 'checksum/settings'" in done.stderr
    rendered("--set", f"{part}.podAnnotations.team=memory")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("gateway.replica=3", "replica"),
        ("workers.recall.kinds={recalling}", "/workers/recall/kinds/0"),
        ("workers.recall=null", "no entry serves the kind recall"),
        ("settings.ENGRAMQ_DATABASE_URL=postgresql://x", "ENGRAMQ_DATABASE_URL"),
        ("settings.RATE=1", "RATE"),
        ("publicUrl=memory.example.org", "publicUrl"),
        ("auth=none", "auth"),
        ("keda.enabled=true,metrics.enabled=true", "keda.prometheusUrl"),
        ("keda.enabled=true", "metrics.enabled"),
        ("ingress.enabled=true", "ingress.host"),
        ("image.digest=sha256:12", "digest"),
        ("settings.ENGRAMQ_HEALTH_PORT=1", "ENGRAMQ_HEALTH_PORT"),
        ("secretSettings.ENGRAMQ_REDIS_URL.name=a,secretSettings.ENGRAMQ_REDIS_URL.key=b", "ENGRAMQ_REDIS_URL"),
        ("extraEnv[0].name=ENGRAMQ_LANES,extraEnv[0].value=2", "/extraEnv/0/name"),
        ("workers.recall.extraVolumes[0].name=tmp", "/workers/recall/extraVolumes/0/name"),
        ("gateway.podDisruptionBudget.maxUnavailable=0", "/gateway/podDisruptionBudget"),
        ("home.path=models", "/home/path"),
        ("certificates.secrets=a", "secrets"),
        ("metrics.enabled=true,metrics.port=9465", "health.port and metrics.port"),
    ],
)
def test_values_that_mean_nothing_are_refused_by_name(values: str, told: str) -> None:
    done = run([tool("helm"), "template", "release", CHART, "--set", values])
    assert done.returncode != 0
    assert told in done.stderr
