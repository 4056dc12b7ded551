"""Issues certificates for nodes and clients by an authority. It blocks, so the loop must not call it."""

import json
import re
import secrets
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

AUTHORITY_DAYS: Final = 3650
DAYS: Final = 365
MAKER_SECONDS: Final = 60.0  # takes 0.2 s on an idle host
MAX_HOSTS: Final = 100  # a certificate is sent in each handshake
MAX_ISSUED: Final = 1_000
_AUTHORITY_NAME: Final = "Ottla cluster authority"
_MAKER: Final = Path(__file__).with_name("certificate_maker.py")
_HOST: Final = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})?(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")
_CLIENT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@ -]{0,62}")
_NODE: Final = re.compile(r"node-\d+", re.IGNORECASE)
_MAX_HOST_CHARACTERS: Final = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """The key and the certificate of a CA, as PEM."""

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A certificate to be issued: for a node with its hosts, or for a client without hosts."""

    name: str
    hosts: tuple[str, ...] = ()

    @property
    def is_server(self) -> bool:
        """Return True if it is the certificate of a node, which has hosts."""
        return bool(self.hosts)


def of_node(node_id: int, hosts: Iterable[str]) -> Wanted:
    """Return the certificate to issue for a node; INVALID_CONFIG for a host that no certificate can name."""
    name = f"node-{node_id}"
    all_hosts = tuple(dict.fromkeys((name, *map(checked_host, hosts))))
    if len(all_hosts) > MAX_HOSTS:
        raise _refused(f"a certificate can name at most {MAX_HOSTS} hosts, not {len(all_hosts)}.")
    return Wanted(name=name, hosts=all_hosts)


def of_client(name: str) -> Wanted:
    """Return the certificate to issue for a client; INVALID_CONFIG for a name that it cannot have."""
    if not _CLIENT.fullmatch(name):
        raise _refused(
            f"{name[:80]!r} cannot be the name of a client: use up to 63 letters, digits, spaces, ., _, @, -."
        )
    if _NODE.fullmatch(name):
        raise _refused(f"{name} is the name of a node; a client that had it could pose as that node.")
    return Wanted(name=name)


def checked_host(host: str) -> str:
    """Return a host in the notation of certificates; INVALID_CONFIG if a certificate cannot name it."""
    host = host.strip().strip("[]").partition("%")[0]
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    if len(host) > _MAX_HOST_CHARACTERS or not _HOST.fullmatch(host):
        raise _refused(f"{host[:80]!r} is neither a host name nor an IP address.")
    return host.lower().rstrip(".")


def issue(authority: Authority | None, wanted: Sequence[Wanted]) -> tuple[Authority, list[str]]:
    """Return the authority, a new one if None is given, and a PEM with key and certificate for each wanted.

    INVALID_CONFIG if the authority cannot be used or the program fails.
    """
    if len(wanted) > MAX_ISSUED:
        raise _refused(f"at most {MAX_ISSUED} certificates are issued at once.")
    request = {
        "authority": authority and {"key": authority.key, "certificate": authority.certificate},
        # Each authority has a name of its own, so that one truststore can contain two of them.
        "authority_name": f"{_AUTHORITY_NAME} {secrets.token_hex(4)}",
        "authority_days": AUTHORITY_DAYS,
        "days": DAYS,
        "wanted": [
            {"name": one.name, "hosts": list(one.hosts), "is_server": one.is_server} for one in wanted
        ],
    }
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_MAKER)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=MAKER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refused(f"the program that makes them failed: {type(error).__name__}.") from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].rstrip(".")
        raise _refused(f"{message or 'the program that makes them failed'}.")
    answer = json.loads(done.stdout)
    made = answer["authority"]
    return Authority(key=made["key"], certificate=made["certificate"]), list(answer["issued"])


def _refused(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Certificates cannot be issued: {problem}")
