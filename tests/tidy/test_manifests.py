"""The manifests of k8s/: what each names is there, and they agree with one another and with the code."""

import re
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
import pytest
import yaml

from pipeline.jobs.job import Flow
from pipeline.jobs.job_reader import read_job_file

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "k8s").glob("*.yaml"))
KINDS = {
    "ConfigMap": "v1",
    "Job": "batch/v1",
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
    """The objects of the Spark job by their kinds."""
    return {document["kind"]: document for document in documents(ROOT / "k8s" / "spark-job.yaml")}


def properties(spark_job: dict[str, Document]) -> dict[str, str]:
    lines = spark_job["ConfigMap"]["data"]["spark.properties"].splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_object_has_its_kind_and_a_name_of_its_own(path: Path) -> None:
    found = documents(path)

    for document in found:
        assert KINDS[document["kind"]] == document["apiVersion"]
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", document["metadata"]["name"])
    names = [(document["kind"], document["metadata"]["name"]) for document in found]
    assert len(set(names)) == len(names)


def test_the_account_that_submits_and_drives_has_the_role(spark_job: dict[str, Document]) -> None:
    account = spark_job["ServiceAccount"]["metadata"]["name"]
    binding = spark_job["RoleBinding"]

    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert binding["roleRef"]["name"] == spark_job["Role"]["metadata"]["name"]
    assert spark_job["Job"]["spec"]["template"]["spec"]["serviceAccountName"] == account
    assert properties(spark_job)["spark.kubernetes.authenticate.driver.serviceAccountName"] == account


def test_what_is_mounted_is_there(spark_job: dict[str, Document]) -> None:
    config = spark_job["ConfigMap"]
    driver = yaml.safe_load(config["data"]["driver.yaml"])
    told = properties(spark_job)
    for pod in (spark_job["Job"]["spec"]["template"]["spec"], driver["spec"]):
        [container] = pod["containers"]
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        assert {one["configMap"]["name"] for one in pod["volumes"]} == {config["metadata"]["name"]}
        mounted = container["volumeMounts"][0]["mountPath"]
        for word in [*container.get("command", ()), told["spark.kubernetes.driver.podTemplateFile"]]:
            if word.startswith("/"):
                assert str(Path(word).parent) == mounted and Path(word).name in config["data"]

    assert driver["spec"]["containers"][0]["name"] == told["spark.kubernetes.driver.podTemplateContainerName"]
    for role in ("driver", "executor"):
        volume = f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.state"
        assert told[f"{volume}.options.claimName"] == spark_job["PersistentVolumeClaim"]["metadata"]["name"]
        assert told[f"{volume}.mount.path"] == yaml.safe_load(config["data"]["jobs.yaml"])["storage"]


def test_the_program_and_its_words_are_those_of_the_package(spark_job: dict[str, Document]) -> None:
    [container] = spark_job["Job"]["spec"]["template"]["spec"]["containers"]
    image = container["image"]
    [program] = [word for word in container["command"] if word.startswith("local://")]
    path = urlsplit(program).path
    recipe = (ROOT / "k8s" / "spark.Dockerfile").read_text()
    python = re.search(r"FROM python:([0-9.]+)", recipe)

    assert image == properties(spark_job)["spark.kubernetes.container.image"]
    assert f"-t {image} " in recipe
    assert python is not None and path.startswith(f"/usr/local/lib/python{python[1]}/site-packages/")
    assert (ROOT / path.partition("/site-packages/")[2]).is_file()
    assert container["command"][-2:] == ["run", "/etc/ottla/jobs.yaml"]


def test_spark_knows_each_setting(spark_job: dict[str, Document]) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    [kubernetes] = jars.glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(kubernetes) as jar:
        known = jar.read("org/apache/spark/deploy/k8s/Config$.class")

    for name in properties(spark_job):
        # Those of accounts are put together from parts there; the test of the submission has them.
        if name.startswith("spark.kubernetes.") and ".authenticate." not in name:
            beginning = re.sub(r"(\.volumes\.).*", r"\1", name)
            assert beginning.encode() in known, name


def test_the_job_file_is_right_and_asks_the_nodes_by_their_service(
    spark_job: dict[str, Document], tmp_path: Path
) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(spark_job["ConfigMap"]["data"]["jobs.yaml"])

    [job] = read_job_file(path, {}).jobs

    assert isinstance(job.work, Flow)
    servers = {one.options["kafka.bootstrap.servers"] for one in (*job.work.sources.values(), job.work.sink)}
    assert servers == {"ottla-0.ottla:9092,ottla-1.ottla:9092,ottla-2.ottla:9092"}
    # `<pod>.<headless service>`, as the README says of the nodes.
    assert "headless service `ottla`" in (ROOT / "k8s" / "README.md").read_text().replace("\n", " ")
