"""Spark itself submits the Spark job of k8s/, to a server that only records the requests."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from ottla.pipeline.spark.java import NoJavaError, find_java
from tests.pipeline.spark.sessions import JAVA_OPTIONS

ROOT = Path(__file__).parents[4]
VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "GET": "get", "DELETE": "delete"}
Document = dict[str, Any]
Request = tuple[str, str, Document]


@contextmanager
def api_server() -> Iterator[tuple[str, list[Request]]]:
    """Run a server; yield its address and the requests: verb, path and object."""
    requests: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            document: Document = (
                json.loads(given) if given else {"kind": "PodList", "apiVersion": "v1", "items": []}
            )
            requests.append((VERBS[self.command], self.path.partition("?")[0], document))
            created = {
                **document,
                "metadata": {**document.get("metadata", {}), "uid": "1", "namespace": "default"},
            }
            content = json.dumps(created).encode()
            self.send_response(201 if given else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.slow
@pytest.mark.thorough
def test_a_submission_makes_the_driver_that_the_manifests_mean(tmp_path: Path) -> None:
    try:
        java = find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    objects = {one["kind"]: one for one in yaml.safe_load_all((ROOT / "k8s" / "spark-job.yaml").read_text())}
    for name, text in objects["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text.replace("/etc/ottla/", f"{tmp_path}/"))
    program, *words = objects["Job"]["spec"]["template"]["spec"]["containers"][0]["command"]
    home = Path(pyspark.__file__).parent

    with api_server() as (address, requests):
        places = {
            "k8s://https://kubernetes.default.svc": f"k8s://{address}",
            "/etc/ottla/spark.properties": f"{tmp_path}/spark.properties",
        }
        no_wait = ["--conf", "spark.kubernetes.submission.waitAppCompletion=false"]
        ended = subprocess.run(
            [home / "bin" / program, *no_wait, *(places.get(word, word) for word in words)],
            env={
                **os.environ,
                "JAVA_HOME": str(java.path),
                "SPARK_HOME": str(home),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "JDK_JAVA_OPTIONS": JAVA_OPTIONS,
                # The clusters of the user who runs the tests must not be used.
                "KUBECONFIG": f"{tmp_path}/none",
            },
            capture_output=True,
            text=True,
            timeout=300,
        )

    assert ended.returncode == 0, ended.stderr
    allowed = {
        (group, resource, verb)
        for rule in objects["Role"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for verb, path, _ in requests:
        parts = path.strip("/").split("/")
        group, resource = (parts[1], parts[5]) if parts[0] == "apis" else ("", parts[4])
        assert (group, resource, verb) in allowed, f"the role does not allow {verb} {resource}"
    [driver] = [document for _, _, document in requests if document["kind"] == "Pod"]
    [container] = driver["spec"]["containers"]
    claim = {"claimName": "ottla-pipeline", "readOnly": False}
    assert container["args"][-3:] == [word for word in words if word.startswith("local:")] + words[-2:]
    assert driver["spec"]["serviceAccountName"] == "ottla-pipeline"
    assert {one["mountPath"] for one in container["volumeMounts"]} >= {
        "/etc/ottla",
        "/var/lib/ottla-pipeline",
    }
    assert {"name": "state", "persistentVolumeClaim": claim} in driver["spec"]["volumes"]
