"""The manifests of k8s/: all that they name exists, and they agree with one another and with the code."""

import json
import os
import re
import subprocess
import zipfile
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
import pytest
import yaml

from ottla.pipeline.jobs.job import Flow
from ottla.pipeline.jobs.job_reader import read_job_file

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "k8s").glob("*.yaml"))
KINDS = {
    "ConfigMap": "v1",
    "Job": "batch/v1",
    "Namespace": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PersistentVolumeClaim": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "StatefulSet": "apps/v1",
}
Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    return list(yaml.safe_load_all(path.read_text()))


@pytest.fixture
def spark_job() -> dict[str, Document]:
    """Return the objects of the Spark job by their kinds."""
    return {document["kind"]: document for document in documents(ROOT / "k8s" / "spark-job.yaml")}


def properties(spark_job: dict[str, Document]) -> dict[str, str]:
    lines = spark_job["ConfigMap"]["data"]["spark.properties"].splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_object_has_a_known_kind_and_a_unique_name(path: Path) -> None:
    found = documents(path)

    for document in found:
        assert KINDS[document["kind"]] == document["apiVersion"]
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", document["metadata"]["name"])
    names = [(document["kind"], document["metadata"]["name"]) for document in found]
    assert len(set(names)) == len(names)


def test_the_account_that_submits_and_drives_has_the_role(spark_job: dict[str, Document]) -> None:
    account = spark_job["ServiceAccount"]["metadata"]["name"]
    binding = spark_job["RoleBinding"]

    [subject] = binding["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", account)
    assert binding["roleRef"]["name"] == spark_job["Role"]["metadata"]["name"]
    assert spark_job["Job"]["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert properties(spark_job)["spark.kubernetes.authenticate.driver.serviceAccountName"] == account


def test_mounted_volumes_exist(spark_job: dict[str, Document]) -> None:
    config = spark_job["ConfigMap"]
    driver = yaml.safe_load(config["data"]["driver.yaml"])
    executor = yaml.safe_load(config["data"]["executor.yaml"])
    settings = properties(spark_job)
    for pod in (spark_job["Job"]["spec"]["template"]["spec"], driver["spec"]):
        [container] = pod["containers"]
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        assert {one["configMap"]["name"] for one in pod["volumes"]} == {config["metadata"]["name"]}
        mounted = container["volumeMounts"][0]["mountPath"]
        for word in [*container.get("command", ()), settings["spark.kubernetes.driver.podTemplateFile"]]:
            if word.startswith("/"):
                assert str(Path(word).parent) == mounted and Path(word).name in config["data"]

    assert (
        driver["spec"]["containers"][0]["name"]
        == settings["spark.kubernetes.driver.podTemplateContainerName"]
    )
    assert Path(settings["spark.kubernetes.executor.podTemplateFile"]).name in config["data"]
    assert "volumes" not in executor["spec"], "Spark mounts the claim itself"
    for role in ("driver", "executor"):
        volume = f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.state"
        assert (
            settings[f"{volume}.options.claimName"] == spark_job["PersistentVolumeClaim"]["metadata"]["name"]
        )
        assert settings[f"{volume}.mount.path"] == yaml.safe_load(config["data"]["jobs.yaml"])["storage"]


def test_the_program_and_its_arguments_are_those_of_the_package(spark_job: dict[str, Document]) -> None:
    [container] = spark_job["Job"]["spec"]["template"]["spec"]["containers"]
    image = container["image"]
    [program] = [word for word in container["command"] if word.startswith("local://")]
    path = urlsplit(program).path
    recipe = (ROOT / "k8s" / "spark.Dockerfile").read_text()
    python = re.search(r"ARG PYTHON=python:([0-9.]+)", recipe)

    assert image == properties(spark_job)["spark.kubernetes.container.image"]
    assert f"-t {image} " in recipe
    assert python is not None and path.startswith(f"/usr/local/lib/python{python[1]}/site-packages/")
    # By its installed name, as only `ottla` is in site-packages.
    place, _, installed = path.partition("/site-packages/ottla/")
    assert place and (ROOT / installed).is_file() and (ROOT / "src" / "ottla" / installed).is_file()
    assert container["command"][-2:] == ["run", "/etc/ottla/jobs.yaml"]


def test_spark_has_each_setting(spark_job: dict[str, Document]) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    [kubernetes] = jars.glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(kubernetes) as jar:
        known = jar.read("org/apache/spark/deploy/k8s/Config$.class")

    for name in properties(spark_job):
        # Settings of accounts are composed from parts there; the test of the submission checks them.
        if name.startswith("spark.kubernetes.") and ".authenticate." not in name:
            beginning = re.sub(r"(\.volumes\.).*", r"\1", name)
            assert beginning.encode() in known, name


def test_the_job_file_is_valid_and_names_the_service_of_the_nodes(
    spark_job: dict[str, Document], tmp_path: Path
) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(spark_job["ConfigMap"]["data"]["jobs.yaml"])

    [job] = read_job_file(path, {}).jobs

    assert isinstance(job.work, Flow)
    servers = {one.options["kafka.bootstrap.servers"] for one in (*job.work.sources.values(), job.work.sink)}
    nodes = [f"ottla-{ordinal}.ottla.default.svc:9092" for ordinal in range(3)]
    assert servers == {",".join(nodes)}
    # `<pod>.<headless service>`, as the README describes the nodes.
    assert "headless service `ottla`" in (ROOT / "k8s" / "README.md").read_text().replace("\n", " ")


def test_an_account_that_may_create_pods_sees_no_secrets(spark_job: dict[str, Document]) -> None:
    namespace = spark_job["Namespace"]["metadata"]["name"]

    assert namespace == properties(spark_job)["spark.kubernetes.namespace"] != "default"
    for kind, document in spark_job.items():
        assert kind == "Namespace" or document["metadata"]["namespace"] == namespace, kind
    [subject] = spark_job["RoleBinding"]["subjects"]
    assert subject["namespace"] == namespace
    assert "Secret" not in spark_job
    assert all("secrets" not in rule["resources"] for rule in spark_job["Role"]["rules"])


def test_jobs_reach_nothing_beyond_private_networks(spark_job: dict[str, Document]) -> None:
    rules = spark_job["NetworkPolicy"]["spec"]["egress"]

    assert all(rule["to"] for rule in rules), "a rule without `to` allows every address"
    blocks = [ip_network(one["ipBlock"]["cidr"]) for rule in rules for one in rule["to"] if "ipBlock" in one]
    shared = ip_network("100.64.0.0/10")  # RFC 6598, which some providers use for pods and services
    assert blocks and all(one.is_private or one == shared for one in blocks)


def test_pods_of_jobs_run_as_a_user_without_rights(spark_job: dict[str, Document]) -> None:
    data = spark_job["ConfigMap"]["data"]
    pods = [yaml.safe_load(data[name])["spec"] for name in ("driver.yaml", "executor.yaml")]
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "k8s" / "spark.Dockerfile").read_text(), flags=re.M)

    for spec in (*pods, spark_job["Job"]["spec"]["template"]["spec"]):
        security = spec["securityContext"]
        assert user is not None and (security["runAsUser"], security["runAsGroup"]) == (
            int(user[1]),
            int(user[2]),
        )
        assert security["runAsNonRoot"] is True and security["seccompProfile"] == {"type": "RuntimeDefault"}
        [container] = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    assert pods[1]["automountServiceAccountToken"] is False


def run_entrypoint(folder: Path, words: list[str], environment: dict[str, str]) -> list[str]:
    """Return the command that the entrypoint runs, printed by a fake `tini`."""
    tini = folder / "tini"
    tini.write_text('#!/bin/sh\nfor word do printf "%s\\n" "$word"; done\n')
    tini.chmod(0o755)
    ended = subprocess.run(
        [ROOT / "k8s" / "spark-entrypoint.sh", *words],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "SPARK_HOME": "/spark", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines()[:2] == ["-s", "--"]
    return ended.stdout.splitlines()[2:]


def test_the_entrypoint_starts_the_commands_that_spark_gives_kubernetes(tmp_path: Path) -> None:
    executor = {
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "-Xss4m",
        "SPARK_JAVA_OPT_3": "behind a gap",
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "shop-exec-1",
    }

    java = run_entrypoint(tmp_path, ["executor"], executor)
    submit = run_entrypoint(
        tmp_path, ["driver", "--class", "x", "local:///a b"], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.9"}
    )
    other = run_entrypoint(tmp_path, ["spark-submit", "--version"], {})

    assert java[:7] == ["java", "-Da=b c", "-Xss4m", "-Xms1g", "-Xmx1g", "-cp", "/spark/jars/*"]
    assert java[7].endswith(".KubernetesExecutorBackend") and "behind a gap" not in java
    assert dict(zip(java[8::2], java[9::2], strict=True)) == {
        "--driver-url": "spark://driver",
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "app",
        "--hostname": "10.0.0.1",
        "--resourceProfileId": "0",
        "--podName": "shop-exec-1",
    }
    assert submit[0] == "/spark/bin/spark-submit" and submit[-3:] == ["--class", "x", "local:///a b"]
    assert "spark.driver.bindAddress=10.0.0.9" in submit
    assert other == ["spark-submit", "--version"]


def test_the_entrypoint_starts_an_existing_class_of_spark_with_valid_arguments() -> None:
    script = (ROOT / "k8s" / "spark-entrypoint.sh").read_text()
    [name] = re.findall(r"org\.apache\.spark\.scheduler\.\S+", script)
    jars = Path(pyspark.__file__).parent / "jars"
    [kubernetes] = jars.glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(kubernetes) as jar:
        backend = jar.read(f"{name.replace('.', '/')}$.class")
        steps = jar.read("org/apache/spark/deploy/k8s/Constants$.class")

    arguments = re.findall(r"(--[a-zA-Z-]+) \"\$SPARK_[A-Z_]+\"(?: \\)?$", script, flags=re.M)
    assert "--driver-url" in arguments and len(arguments) > 1
    for argument in arguments:
        assert argument.encode() in backend, argument
    for variable in re.findall(r"\$(SPARK_(?:DRIVER|EXECUTOR|APPLICATION|RESOURCE)[A-Z_]+)", script):
        assert variable.encode() in steps, variable


@pytest.mark.parametrize("name", ["Dockerfile", "spark.Dockerfile"])
def test_images_have_a_base_by_digest_and_packages_by_hash(name: str) -> None:
    text = (ROOT / "k8s" / name).read_text()

    [base] = re.findall(r"^ARG PYTHON=(\S+)$", text, flags=re.M)
    assert re.fullmatch(r"python:3\.12-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert set(re.findall(r"^FROM (\S+)", text, flags=re.M)) == {"${PYTHON}"}
    for command in re.findall(r"pip (?:install|wheel) .*", text):
        assert "--require-hashes" in command or "--no-index" in command, command
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", text, flags=re.M)
    assert (ROOT / "k8s" / f"{name}.dockerignore").read_text().startswith("*\n")


@pytest.mark.parametrize(
    ("lock", "bill"),
    [("requirements.txt", "sbom.cdx.json"), ("spark-requirements.txt", "spark-sbom.cdx.json")],
)
def test_the_bill_of_materials_lists_what_is_locked(lock: str, bill: str) -> None:
    locked = re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "k8s" / lock).read_text(), flags=re.M)
    components = json.loads((ROOT / "k8s" / bill).read_text())["components"]

    assert sorted((one["name"], one["version"]) for one in components) == sorted(locked)
    assert all(one["purl"].startswith("pkg:pypi/") for one in components)
