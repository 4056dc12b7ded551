"""The overlays as kustomize renders them: valid for Kubernetes, and with the properties operators rely on."""

import atexit
import functools
import os.path
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from ottla.metadata_raft.peer_certificate import is_named
from ottla.node.cli.command_config import read_command_config
from ottla.node.secure_setup.secure_directory import complete
from ottla.node.security.server_context import build_tls
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.config import environment_name, load_config
from ottla.node.settings.secure_settings import SecureFiles
from tests.k8s.pod import NAMESPACE, Pod, pod_of
from tests.k8s.rendered import OVERLAYS, ROOT, Object, find, overlay, render
from tests.k8s.stateful_set import SECRETS

# The oldest version that the manifests support, and the newest known one.
KUBERNETES = ("1.31", str(kubernetes_validate.latest_version()))
SECURE = ROOT / "k8s" / "overlays" / "secure"
NODE_LABELS = {"topology.kubernetes.io/zone": "zone-b", "kubernetes.io/hostname": "host-7"}
# An object of the Prometheus operator: Kubernetes itself has no schema for it.
OWN_KINDS = {"ServiceMonitor"}


# Variables that only commands read, not nodes.
OF_COMMANDS = {"OTTLA_CONFIG"}


@functools.cache
def mounted() -> Path:
    """Return a folder with the files of the Secrets of the overlay `secure`, as mounted at /etc/ottla."""
    folder = Path(tempfile.mkdtemp(prefix="ottla-secrets-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    keys = SecureFiles(folder / "keys")
    names = [str(one) for one in certificate_of_nodes()["spec"]["dnsNames"]]
    complete(keys, hosts_of={0: names}, bootstrap="")
    (folder / "tls").mkdir()
    (folder / "tls" / "tls-combined.pem").write_bytes(keys.node(0).read_bytes())
    (folder / "tls" / "ca.crt").write_bytes(keys.authority.read_bytes())
    (folder / "secure").mkdir()
    (folder / "secure" / "cluster.secret").write_bytes(keys.cluster_secret.read_bytes())
    example = (SECURE / "client.properties.example").read_text()
    (folder / "secure" / "client.properties").write_text(example)
    return folder


def certificate_of_nodes() -> Object:
    """Return the certificate of the nodes in the example for cert-manager."""
    return find(
        list(yaml.safe_load_all((SECURE / "cert-manager.yaml").read_text())), "Certificate", "ottla-tls"
    )


def pod(objects: list[Object], ordinal: int = 1) -> Pod:
    """Return a pod; if it has Secrets as files, these files exist, and its environment names them."""
    found = pod_of(objects, ordinal, address="10.0.0.9", secrets=SECRETS, node_labels=NODE_LABELS)
    if not any("/etc/ottla" in value for value in found.environment.values()):
        return found
    here = {name: value.replace("/etc/ottla", str(mounted())) for name, value in found.environment.items()}
    return replace(found, environment=here)


def container_of(objects: list[Object]) -> Object:
    [container] = find(objects, "StatefulSet", "ottla")["spec"]["template"]["spec"]["containers"]
    return dict(container)


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", OVERLAYS)
def test_each_object_is_valid_for_kubernetes(name: str, version: str) -> None:
    for one in overlay(name):
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_variable_is_a_setting_that_the_node_accepts(name: str) -> None:
    environment = pod(overlay(name), 0).environment
    settings = {environment_name(one) for one in BROKER_CONFIG_DEF.keys}

    given = {one for one in environment if one.startswith("OTTLA_")}
    unknown = given - settings - OF_COMMANDS
    config = load_config(environment=environment)

    assert unknown == set() and config.warnings == ()
    assert not any("$(" in value for value in environment.values()), environment
    assert config.node_id == 0 and config.broker_rack == "zone-b"


@pytest.mark.parametrize("name", OVERLAYS)
def test_ports_are_those_of_the_listeners(name: str) -> None:
    objects = overlay(name)
    one = pod(objects)
    config = load_config(environment=one.environment)

    listening = {listener.port for listener in (*config.listeners, *config.controller_listeners)}
    listening |= {address.port for address in config.ottla_rest_listeners}
    assert config.ottla_probe_listener is not None
    listening.add(config.ottla_probe_listener.port)

    assert listening == set(one.ports.values())
    for service in (one for one in objects if one["kind"] == "Service"):
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in one.ports, service
            if "nodePort" not in port:
                assert one.ports[port["targetPort"]] == port["port"], service
    for policy in (one for one in objects if one["kind"] == "NetworkPolicy"):
        for rule in (*policy["spec"]["ingress"], *policy["spec"].get("egress", ())):
            assert {port["port"] for port in rule["ports"]} <= {53, *one.ports}, policy


@pytest.mark.parametrize("name", OVERLAYS)
def test_probes_have_a_port_that_no_client_reaches(name: str) -> None:
    objects = overlay(name)
    one = pod(objects)
    config = load_config(environment=one.environment)

    assert config.ottla_probe_listener is not None
    assert {probe.port for probe in (one.startup, one.liveness, one.readiness)} == {
        config.ottla_probe_listener.port
    }
    [port_name] = [name for name, port in one.ports.items() if port == config.ottla_probe_listener.port]
    for policy in (one for one in objects if one["kind"] == "NetworkPolicy"):
        for rule in policy["spec"]["ingress"]:
            assert port_name not in {port["port"] for port in rule["ports"]}, policy


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_pod_advertises_its_name_and_not_its_address(name: str) -> None:
    one = pod(overlay(name), 1)
    config = load_config(environment=one.environment)

    inside = [listener for listener in config.advertised_listeners if listener.name == "INTERNAL"]

    assert [listener.host for listener in inside] == [f"ottla-1.ottla.{NAMESPACE}.svc"]
    assert all(
        voter.host in pod(overlay(name), voter.node_id).host_names
        for voter in config.controller_quorum_voters
    )


def test_three_nodes_form_the_cluster_and_later_ones_are_observers() -> None:
    objects = overlay("three-nodes")
    replicas = find(objects, "StatefulSet", "ottla")["spec"]["replicas"]

    configs = [load_config(environment=pod(objects, ordinal).environment) for ordinal in range(5)]

    assert [one.is_voter for one in configs] == [True] * replicas + [False] * 2
    assert [one.may_vote for one in configs] == [False] * replicas + [True] * 2
    assert all(one.min_insync_replicas == 2 for one in configs)


def test_each_pod_is_reached_from_outside_at_a_port_of_its_host() -> None:
    objects = overlay("external-access")
    ports = {
        one["spec"]["selector"]["apps.kubernetes.io/pod-index"]: one["spec"]["ports"][0]["nodePort"]
        for one in objects
        if one["kind"] == "Service" and "apps.kubernetes.io/pod-index" in one["spec"]["selector"]
    }

    for ordinal in range(find(objects, "StatefulSet", "ottla")["spec"]["replicas"]):
        config = load_config(environment=pod(objects, ordinal).environment)
        [outside] = [one for one in config.advertised_listeners if one.name == "EXTERNAL"]
        assert (outside.host, outside.port) == ("10.0.0.9", ports[str(ordinal)])


@pytest.mark.parametrize("name", OVERLAYS)
def test_selectors_find_the_pods(name: str) -> None:
    objects = overlay(name)
    spec = find(objects, "StatefulSet", "ottla")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    budget = find(objects, "PodDisruptionBudget", "ottla")["spec"]
    [affinity] = spec["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    [spread] = spec["template"]["spec"]["topologySpreadConstraints"]

    assert affinity["topologyKey"] == "kubernetes.io/hostname"
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert budget["maxUnavailable"] == 1
    for selector in (
        spec["selector"]["matchLabels"],
        budget["selector"]["matchLabels"],
        affinity["labelSelector"]["matchLabels"],
        spread["labelSelector"]["matchLabels"],
        find(objects, "NetworkPolicy", "ottla")["spec"]["podSelector"]["matchLabels"],
        find(objects, "Service", "ottla")["spec"]["selector"],
        find(objects, "Service", "ottla-bootstrap")["spec"]["selector"],
    ):
        assert selector and selector.items() <= labels.items()


def test_nodes_that_start_find_each_other_before_they_are_ready() -> None:
    spec = find(overlay("three-nodes"), "StatefulSet", "ottla")["spec"]
    service = find(overlay("three-nodes"), "Service", spec["serviceName"])["spec"]

    assert spec["podManagementPolicy"] == "Parallel"
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True


def test_a_pod_has_only_the_privileges_that_it_needs() -> None:
    objects = overlay("three-nodes")
    spec = find(objects, "StatefulSet", "ottla")["spec"]["template"]["spec"]
    container = container_of(objects)

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"]["cpu"] == "1"


@pytest.mark.parametrize("name", OVERLAYS)
def test_network_policies_permit_only_labelled_clients_other_pods_and_dns(name: str) -> None:
    policy = find(overlay(name), "NetworkPolicy", "ottla")["spec"]
    nodes = {"podSelector": policy["podSelector"]}
    label = {"matchLabels": {"ottla/client": "true"}}

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    clients, peers = policy["ingress"]
    assert clients["from"] == [{"podSelector": label}, {"namespaceSelector": label}]
    assert {port["port"] for port in clients["ports"]} == {"kafka", "rest"}
    assert peers["from"] == [nodes]
    to_peers, to_names = policy["egress"]
    assert to_peers["to"] == [nodes] and to_peers["ports"] == peers["ports"]
    assert {port["port"] for port in to_names["ports"]} == {53}
    [to_dns] = to_names["to"]
    assert to_dns["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}, "no other pod of kube-system"


def test_the_grace_is_enough_for_the_hook_and_the_stop() -> None:
    one = pod(overlay("three-nodes"))
    words = list(one.pre_stop)

    hook_s = float(words[words.index("--timeout") + 1]) + float(words[words.index("--linger") + 1])

    assert one.grace_s == 90 and hook_s <= one.grace_s - 20


def test_liveness_is_about_the_process_and_readiness_about_the_cluster() -> None:
    one = pod(overlay("three-nodes"))

    assert one.liveness.path == one.startup.path == "/healthz" and one.readiness.path == "/readyz"


# ---- the secure overlay ----------------------------------------------------------------------------


def test_a_secure_pod_accepts_no_client_without_tls_and_a_login() -> None:
    config = load_config(environment=pod(overlay("secure"), 0).environment)

    protocols = {one.name: one.security_protocol for one in (*config.listeners, *config.controller_listeners)}
    assert protocols == {"CLIENTS": "SASL_SSL", "INTERNAL": "SSL", "CONTROLLER": "SSL"}
    assert config.secure_files is not None and config.authorizer is not None
    assert [one.name for one in config.first_users] == ["admin"]
    assert [one.is_secure for one in config.ottla_rest_listeners] == [True]
    assert config.rest_logins.methods == ("basic",)
    for security in config.listener_security.values():
        assert build_tls(security).certificate.subject


def test_no_secret_of_a_secure_pod_is_in_its_environment() -> None:
    [container] = find(overlay("secure"), "StatefulSet", "ottla")["spec"]["template"]["spec"]["containers"]
    volumes = find(overlay("secure"), "StatefulSet", "ottla")["spec"]["template"]["spec"]["volumes"]

    assert not any("secretKeyRef" in one.get("valueFrom", {}) for one in container["env"])
    assert {one["name"] for one in volumes} == {"secure", "tls"}
    assert {one["secret"]["defaultMode"] for one in volumes} == {0o440}
    assert all(one["readOnly"] for one in container["volumeMounts"] if one["name"] != "data")


def test_the_certificate_of_the_example_names_nodes_pods_and_services() -> None:
    certificate = certificate_of_nodes()["spec"]
    names = certificate["dnsNames"]
    volumes = find(overlay("secure"), "StatefulSet", "ottla")["spec"]["template"]["spec"]["volumes"]

    for ordinal in range(find(overlay("secure"), "StatefulSet", "ottla")["spec"]["replicas"]):
        one = pod(overlay("secure"), ordinal)
        config = load_config(environment=one.environment)
        assert f"node-{ordinal}" in names
        for host in (*one.host_names, *(listener.host for listener in config.advertised_listeners)):
            assert is_named(names, -1, [host]), host
    assert {"localhost", "ottla-bootstrap", f"ottla-bootstrap.{NAMESPACE}.svc"} <= set(names)
    assert certificate["secretName"] in {one["secret"]["secretName"] for one in volumes}
    assert certificate["additionalOutputFormats"] == [{"type": "CombinedPEM"}]


def test_commands_in_a_secure_pod_log_in_with_the_file_of_the_secret() -> None:
    environment = pod(overlay("secure"), 0).environment

    command = read_command_config(Path(environment["OTTLA_CONFIG"]))

    assert command.bootstrap == "localhost:9092"
    assert command.security.protocol == "SASL_SSL" and command.security.login is not None
    assert command.security.login.user == "admin"


def test_only_nodes_reach_the_listener_of_nodes() -> None:
    policy = find(overlay("secure"), "NetworkPolicy", "ottla")["spec"]

    clients, peers = policy["ingress"]
    assert "internal" not in {one["port"] for one in clients["ports"]}
    assert {one["port"] for one in peers["ports"]} == {"internal", "controller", "rest"}


def test_metrics_are_scraped_from_each_node_once(tmp_path: Path) -> None:
    folder = tmp_path / "overlay"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(
        f"resources: [{_from(folder, 'overlays/three-nodes')}]\n"
        f"components: [{_from(folder, 'components/service-monitor')}]\n"
    )

    objects = render(str(folder))
    monitor = find(objects, "ServiceMonitor", "ottla")["spec"]

    selected = [
        one["metadata"]["name"]
        for one in objects
        if one["kind"] == "Service"
        and monitor["selector"]["matchLabels"].items() <= one["metadata"].get("labels", {}).items()
    ]
    [endpoint] = monitor["endpoints"]
    assert selected == ["ottla"] and endpoint["port"] in pod(objects).ports and endpoint["path"] == "/metrics"
    # Strimzi's dashboards select by the last three.
    given = {one["targetLabel"]: one.get("replacement") for one in endpoint["relabelings"]}
    assert given.keys() == {"instance", "kubernetes_pod_name", "strimzi_io_cluster", "strimzi_io_name"}
    assert given["strimzi_io_cluster"] == find(objects, "StatefulSet", "ottla")["metadata"]["name"]
    for one in objects:
        if one["kind"] not in OWN_KINDS:
            kubernetes_validate.validate(one, KUBERNETES[1], strict=True)


def _from(folder: Path, target: str) -> str:
    """Return the relative path of a folder, since kustomize accepts no absolute paths."""
    return os.path.relpath(ROOT / "k8s" / target, folder)
