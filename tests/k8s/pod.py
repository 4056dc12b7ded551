"""A pod of the StatefulSet as the kubelet sees it: its command, environment, probes and hook.

Pure. The rules are those of Kubernetes' documentation: `env` overrides `envFrom`; `$(NAME)` stands for a
variable that was defined before it, and is kept if there is none; ports of probes may be names.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.k8s.rendered import Object, find

NAMESPACE = "default"
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_LABEL = re.compile(r"metadata\.labels\['([^']+)'\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A GET request over HTTP that the kubelet repeats."""

    path: str
    port: int
    period_s: float
    timeout_s: float
    failure_threshold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The definition of one pod."""

    name: str
    ordinal: int
    command: Sequence[str]
    environment: Mapping[str, str]
    ports: Mapping[str, int]
    startup: Probe
    liveness: Probe
    readiness: Probe
    pre_stop: Sequence[str]
    grace_s: float
    user: int
    volume_path: str  # the mount point of its data volume
    host_names: Sequence[str]  # its names in the headless service


def pod_of(
    objects: list[Object],
    ordinal: int,
    *,
    address: str,
    secrets: Mapping[str, Mapping[str, str]],
    node_labels: Mapping[str, str],
) -> Pod:
    """Return the pod of this ordinal, on a host with these labels, with this address."""
    stateful_set = find(objects, "StatefulSet", "ottla")
    template = stateful_set["spec"]["template"]
    spec = template["spec"]
    [container] = spec["containers"]
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    service = stateful_set["spec"]["serviceName"]
    fields = {
        "metadata.name": name,
        "metadata.namespace": NAMESPACE,
        "status.podIP": address,
        "status.hostIP": address,
    }
    labels = {
        **template["metadata"]["labels"],
        "apps.kubernetes.io/pod-index": str(ordinal),
        "statefulset.kubernetes.io/pod-name": name,
        **{key: value for key, value in node_labels.items() if key.startswith("topology.kubernetes.io/")},
    }
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    [mount] = [one for one in container["volumeMounts"] if one["name"] == "data"]
    environment = _environment(objects, container, fields, labels, secrets)
    return Pod(
        name=name,
        ordinal=ordinal,
        command=[expand(word, environment) for word in container["command"]],
        environment=environment,
        ports=ports,
        startup=_probe(container["startupProbe"], ports),
        liveness=_probe(container["livenessProbe"], ports),
        readiness=_probe(container["readinessProbe"], ports),
        pre_stop=container["lifecycle"]["preStop"]["exec"]["command"],  # without expansion of variables
        grace_s=spec["terminationGracePeriodSeconds"],
        user=spec["securityContext"]["runAsUser"],
        volume_path=mount["mountPath"],
        host_names=[f"{name}.{service}", f"{name}.{service}.{NAMESPACE}.svc"],
    )


def _environment(
    objects: list[Object],
    container: Object,
    fields: Mapping[str, str],
    labels: Mapping[str, str],
    secrets: Mapping[str, Mapping[str, str]],
) -> dict[str, str]:
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        [config] = [
            one
            for one in objects
            if one["kind"] == "ConfigMap" and one["metadata"]["name"] == source["configMapRef"]["name"]
        ]
        found |= config["data"]
    for one in container["env"]:
        if "value" in one:
            found[one["name"]] = expand(one["value"], found)
            continue
        match one["valueFrom"]:
            case {"fieldRef": {"fieldPath": path}}:
                label = _LABEL.fullmatch(path)
                found[one["name"]] = labels.get(label[1], "") if label else fields[path]
            case {"secretKeyRef": {"name": name, "key": key}}:
                found[one["name"]] = secrets[name][key]
            case other:
                raise AssertionError(f"{one['name']}: {other}")
    return found


def expand(text: str, known: Mapping[str, str]) -> str:
    """Return `text` with each known $(NAME) replaced by its value."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return known.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def _probe(probe: Object, ports: Mapping[str, int]) -> Probe:
    action = probe["httpGet"]
    port = action["port"]
    return Probe(
        path=action["path"],
        port=port if isinstance(port, int) else ports[port],
        period_s=probe.get("periodSeconds", 10),
        timeout_s=probe.get("timeoutSeconds", 1),
        failure_threshold=probe.get("failureThreshold", 3),
    )
