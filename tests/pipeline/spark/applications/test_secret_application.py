"""Secrets among options of a whole application: its log, events, plans and files contain none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.spark.java import NoJavaError, find_java
from tests.pipeline.secured import secured
from tests.pipeline.topics import fill, make_topic

pytestmark = pytest.mark.slow
TIMEOUT_S = 300
ROOT = Path(__file__).parents[4]


def test_no_secret_is_shown_or_stored(tmp_path: Path) -> None:
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    work = tmp_path / "work"
    work.mkdir()
    with secured(tmp_path / "server") as server:
        admin = server.bootstrap("ADMIN")
        topic, copies = make_topic(admin, name="orders"), make_topic(admin, name="copies")
        fill(admin, topic, [b"1", b"2"])
        rights = [f"{kind} * all" for kind in ("topic", "group", "transactional-id")]
        server.grant("anna", *rights, "cluster - all")
        key, _, chain = (server.home / "anna.pem").read_text().partition("-----BEGIN CERTIFICATE-----")
        given = {
            **server.options(),
            "kafka.ssl.keystore.key": key,
            "kafka.ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE-----{chain}",
        }
        jaas = given["kafka.sasl.jaas.config"]
        password = jaas.split('"')[3]
        secrets = tmp_path / "secrets.properties"
        secrets.write_text(f"password = {password}\n")
        referred = jaas.replace(password, f"${{file:{secrets}:password}}")
        referring = {**server.options(), "kafka.sasl.jaas.config": referred}
        wrong = jaas.replace(password, "guessed-canary-password")
        request = {
            "folder": str(work),
            "topic": topic,
            "copies": copies,
            "options": {"given": given, "referring": referring},
            "wrong": {"kafka.sasl.jaas.config": wrong},
        }
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.pipeline.spark.applications.secret_application",
                json.dumps(request),
            ],
            cwd=work,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(work / "local")},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    output = done.stdout + done.stderr
    (tmp_path / "output").write_text(output)
    assert done.returncode == 0, output[-4000:]
    assert "rows of table referring: 2" in output and "no table given:" in output
    assert output.count("refused the login of the user anna") >= 2
    canaries = [password, "guessed-canary-password", "".join(key.split()[3:5])[:40], key.split("\n")[1]]
    shown = [
        f"{where}: ...{text[at - 120 : at + 60]}"
        for where, text in [("output", output), *contents(work)]
        for canary in canaries
        if (at := text.find(canary)) >= 0
    ]
    assert shown == []


def contents(folder: Path) -> list[tuple[str, str]]:
    """Return all files below a folder with their content."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any("checkpoint" in str(path) or "offsets" in str(path) for path in files)
    assert any("events" in str(path) for path in files)
    return [(str(path.relative_to(folder)), path.read_bytes().decode("latin-1")) for path in files]
