"""A node with secrets that the tests know, and a search for these secrets in everything the node shows."""

import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from ottla.node.secure_client.scram_client import ScramClient
from ottla.node.security.cluster_key import cluster_key
from tests.compat.wire_client import WireClient
from tests.integration.lone_command import TIMEOUT_S, environment
from tests.ports import free_port
from tests.tokens import AUDIENCE, ISSUER, claims, token

ADMIN: Final = "admin"
SCRAM: Final = "SCRAM-SHA-512"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MODULES: Final = "org.apache.kafka.common.security"
# Secrets by name. None of these texts occurs anywhere else.
PASSWORDS: Final = {
    "keystore password": "canary-keystore-5e1f",
    "key password": "canary-key-8b20",
    "SCRAM password": "canary-scram-c3d7",
    "PLAIN password": "canary-plain-94aa",
    "password of nodes": "canary-nodes-61be",
    "cluster.secret": "canary-cluster-secret-of-some-length-0f4c",
}
MAX_STREAM_BYTES: Final = 1 << 20


class Reply(NamedTuple):
    """An answer of the REST API."""

    status: int
    headers: str
    content: bytes


def forms(secret: bytes) -> set[bytes]:
    """Return the forms in which a secret could be written: as it is, in base64, in hex, in a URL."""
    return {
        secret,
        base64.b64encode(secret).rstrip(b"="),
        base64.urlsafe_b64encode(secret).rstrip(b"="),
        secret.hex().encode(),
        b"%00".join(secret.split(b"\0")),
    }


def found_in(text: bytes, secrets: Mapping[str, bytes]) -> list[str]:
    """Return the names of the secrets that a text contains in any form."""
    return [name for name, secret in secrets.items() if any(form in text for form in forms(secret))]


def _line(text: str) -> str:
    """Return a text of several lines as one value of a properties file."""
    return text.replace("\n", "\\n")


class CanaryNode:
    """A node with a keystore that has a password, a key in its settings, and every login mechanism."""

    def __init__(self, home: Path, keys_url: str, authorities: Path) -> None:
        self.home = home
        self.ports = {name: free_port() for name in ("CLIENTS", "INLINE", "NODES")}
        ca = trustme.CA()
        self.authority = home / "ca.pem"
        ca.cert_pem.write_to_path(str(self.authority))
        issued = ca.issue_cert("127.0.0.1", "localhost", "node-0")
        self.properties = home / "server.properties"
        self.log_file, self.audit_file = home / "node.log", home / "audit.log"
        self.secrets = {name: value.encode() for name, value in PASSWORDS.items()}
        self.secrets["cluster key"] = bytes(cluster_key(PASSWORDS["cluster.secret"]))
        self._write_settings(issued, keys_url, authorities)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ottla", "start", "--config", str(self.properties)],
                cwd=home,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        self.output = self.process.stdout.readline()
        if not self.output.startswith("READY "):
            self.stop()
            raise AssertionError(self.log_file.read_text())
        self.rest = self.output.split(" rest=")[1].split()[0]

    def _write_settings(self, issued: trustme.LeafCert, keys_url: str, authorities: Path) -> None:
        key_pem, chain = issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes()
        key = serialization.load_pem_private_key(key_pem, None)
        store = self.home / "node.p12"
        store.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"node",
                key,  # type: ignore[arg-type]
                load_pem_x509_certificate(chain),
                None,
                serialization.BestAvailableEncryption(self.secrets["keystore password"]),
            )
        )
        sealed = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(self.secrets["key password"]),
        ).decode()
        self.secrets["PEM key"] = sealed.splitlines()[3].encode()
        values = {
            "node.id": "0",
            "log.dirs": str(self.home / "data"),
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,INLINE:SSL,NODES:SASL_SSL",
            "inter.broker.listener.name": "NODES",
            "sasl.mechanism.inter.broker.protocol": SCRAM,
            "sasl.enabled.mechanisms": f"{SCRAM},PLAIN,OAUTHBEARER",
            "listener.name.nodes.sasl.enabled.mechanisms": SCRAM,
            "listener.name.nodes.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule "
            f'required username="nodes" password="{PASSWORDS["password of nodes"]}";',
            "listener.name.clients.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required "
            f'user_ann="{PASSWORDS["PLAIN password"]}";',
            "ottla.add.scram": f"{SCRAM}=[name={ADMIN},password={PASSWORDS['SCRAM password']}];"
            f"{SCRAM}=[name=nodes,password={PASSWORDS['password of nodes']}]",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "listener.name.inline.ssl.keystore.type": "PEM",
            "listener.name.inline.ssl.keystore.key": _line(sealed),
            "listener.name.inline.ssl.keystore.certificate.chain": _line(chain.decode()),
            "listener.name.inline.ssl.key.password": PASSWORDS["key password"],
            "ottla.rest.ssl.keystore.type": "PKCS12",
            "ottla.rest.ssl.keystore.location": str(store),
            "ottla.rest.ssl.keystore.password": PASSWORDS["keystore password"],
            "sasl.oauthbearer.jwks.endpoint.url": keys_url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "ottla.sasl.oauthbearer.truststore.location": str(authorities),
            "authorizer.class.name": STANDARD,
            "super.users": f"User:{ADMIN};User:nodes",
            "cluster.secret": PASSWORDS["cluster.secret"],
            "ottla.audit.file": str(self.audit_file),
            "ottla.rest.listeners": "https://127.0.0.1:0",
            "ottla.rest.authentication": "basic,bearer",
            "connection.failed.authentication.delay.ms": "0",
        }
        for name in ("clients", "nodes"):
            values |= {
                f"listener.name.{name}.ssl.keystore.type": "PKCS12",
                f"listener.name.{name}.ssl.keystore.location": str(store),
                f"listener.name.{name}.ssl.keystore.password": PASSWORDS["keystore password"],
            }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        self.properties.chmod(0o600)

    def stop(self) -> int:
        """Stop the node and return its exit code."""
        self.process.terminate()
        code = self.process.wait(TIMEOUT_S)
        assert self.process.stdout is not None
        self.output += self.process.stdout.read()
        self.process.stdout.close()
        return code

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of a client that trusts the node."""
        return ssl.create_default_context(cafile=str(self.authority))

    def connect(self, mechanism: str, *tokens: bytes) -> tuple[WireClient, list[Any]]:
        """Log in at the listener CLIENTS with these tokens; return the connection and the node's answers."""
        context = self.tls()
        client = WireClient(
            f"127.0.0.1:{self.ports['CLIENTS']}",
            wrap=lambda plain: context.wrap_socket(plain, server_hostname="127.0.0.1"),
        )
        try:
            answers: list[Any] = [client.call("sasl_handshake", 1, mechanism=mechanism)]
            for one in tokens:
                answers.append(client.call("sasl_authenticate", 2, auth_bytes=one))
        except BaseException:
            client.close()
            raise
        return client, answers

    def administrator(self) -> WireClient:
        """Return a connection that is logged in as the administrator."""
        client, _ = self.connect(SCRAM)
        scram = ScramClient(SCRAM, ADMIN, PASSWORDS["SCRAM password"], nonce=base64.b64encode(os.urandom(18)))
        message: bytes | None = scram.first()
        while message is not None:
            answer: Any = client.call("sasl_authenticate", 2, auth_bytes=message)
            assert not answer.error_code, answer
            message = scram.respond(bytes(answer.auth_bytes))
        return client

    def client_properties(self, *lines: str) -> Path:
        """Write a client's properties file and return its path."""
        path = self.home / f"client-{len(list(self.home.glob('client-*')))}.properties"
        usual = (
            f"bootstrap.servers=127.0.0.1:{self.ports['CLIENTS']}",
            "security.protocol=SASL_SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority}",
        )
        path.write_text("\n".join((*usual, *lines)) + "\n")
        path.chmod(0o600)
        return path

    def bearer(self, **more: Any) -> str:
        """Return an access token of the administrator."""
        now_s = int(time.time())
        return token(claims(now_s, sub=ADMIN, **more), key="rsa", algorithm="RS256")

    def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        body: Any = None,
        user: str = ADMIN,
        password: str = PASSWORDS["SCRAM password"],
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request to the REST API, by default as the administrator."""
        where = urlsplit(self.rest)
        if headers is None:
            proof = base64.b64encode(f"{user}:{password}".encode()).decode()
            headers = {"Authorization": f"Basic {proof}"}
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers = {"Content-Type": "application/json", **headers}
        connection = http.client.HTTPSConnection(
            str(where.hostname), where.port, timeout=TIMEOUT_S, context=self.tls()
        )
        try:
            connection.request(method, path, content, dict(headers))
            answer = connection.getresponse()
            read = b""
            with suppress(TimeoutError, http.client.HTTPException):
                read = answer.read(MAX_STREAM_BYTES)
            return Reply(answer.status, str(answer.headers), read)
        finally:
            connection.close()

    def all_gets(self, names: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the paths of all GETs in the OpenAPI document, with every name and every query choice."""
        document = json.loads(self.ask("/openapi.json").content)
        paths: list[str] = []
        for path, operations in document["paths"].items():
            if "get" not in operations:
                continue
            made = [path]
            for name, values in names.items():
                field = f"{{{name}}}"
                made = [
                    one.replace(field, value) for one in made for value in (values if field in one else ("",))
                ]
            assert "{" not in "".join(made), made
            paths += made
            for given in operations["get"].get("parameters", []):
                choices = given.get("schema", {}).get("enum", [])
                if given.get("in") == "query":
                    paths += [f"{one}?{given['name']}={choice}" for one in made for choice in choices]
        return list(dict.fromkeys(paths))

    def processes(self) -> dict[str, bytes]:
        """Return the arguments and the environment of the node and of its child processes."""
        texts = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                status = (process / "status").read_text()
                is_child = f"PPid:\t{self.process.pid}\n" in status
                if is_child or process.name == str(self.process.pid):
                    for part in ("cmdline", "environ"):
                        texts[f"{process}/{part}"] = (process / part).read_bytes()
        return texts
