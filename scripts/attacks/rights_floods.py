"""Masses of denials, 50,000 ACLs, forged proofs, and metrics that hostile clients push."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S, codes_in, in_words
from attacks.metrics_bomb import MAX_SCRAPE_BYTES
from attacks.nodes import Nodes
from attacks.secured_access import USER, Role
from ottla.logstore.compression import Compression, compress
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import uuid_from_text
from tests.compat.wire_client import Closed
from tests.otlp import bytes_field, gauge, histogram, metrics_data, number_field, point, total, varint

ACLS: Final = 50_000
ACLS_AT_ONCE: Final = 5_000
NAMES_PER_REQUEST: Final = 1_000
CHECKS: Final = 40
FILTERS: Final = 9_900
TOPIC, GROUP, CLIENT_METRICS = 2, 3, 16
ANY_TYPE: Final = 1
LITERAL, PREFIXED, MATCH = 3, 4, 2
READ, ALLOW, DENY, ANY = 3, 3, 2, 1
DENIALS: Final = 8
DENIED_ROUNDS: Final = 20
PROOFS: Final = 1_000
THREADS: Final = 8
PUSHES: Final = 60
PUSH_BYTES: Final = 1_000_000  # of telemetry.max.bytes, 1 MiB
INTERVAL_MS: Final = "100"


# ---- 50,000 access control entries ----------------------------------------------------------------------


def _name(number: int) -> str:
    """Return a name; many prefixes of it, of many lengths, have ACLs."""
    return f"{number * 7919 % ACLS:05d}".ljust(5 + number % 200, "x")


_ALL: Final[dict[str, Any]] = {
    "resource_type_filter": ANY_TYPE,
    "resource_name_filter": None,
    "pattern_type_filter": ANY_TYPE,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


def _make_acls(nodes: Nodes) -> None:
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        if client.call("describe_acls", 3, **{**_ALL, "resource_name_filter": _name(0)}).resources:
            return
        for first in range(0, ACLS, ACLS_AT_ONCE):
            creations = [
                {
                    "resource_type": TOPIC,
                    "resource_name": _name(number),
                    "resource_pattern_type": PREFIXED if number % 2 else LITERAL,
                    "principal": f"User:{USER if number % 3 else number}",
                    "host": "*" if number % 5 else "10.0.0.1",
                    "operation": READ,
                    "permission_type": DENY if number % 4 else ALLOW,
                }
                for number in range(first, first + ACLS_AT_ONCE)
            ]
            answer = client.call("create_acls", 3, creations=creations)
            assert set(codes_in(answer)) == {0}, in_words(codes_in(answer))


def _random_checks(nodes: Nodes) -> str:
    chance = random.Random(1)
    codes: Counter[int] = Counter()
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        for _ in range(CHECKS):
            names = {
                _name(chance.randrange(ACLS)) + str(chance.randrange(9)) for _ in range(NAMES_PER_REQUEST)
            }
            topics = [{"name": one} for one in sorted(names)]
            codes += codes_in(client.call("metadata", 12, topics=topics))
    return in_words(codes)


def _filters(number: int) -> dict[str, Any]:
    """Return a filter that matches nothing, which a node finds out only by checking entries."""
    return {
        **_ALL,
        "resource_type_filter": TOPIC,
        "resource_name_filter": f"absent-{number}" if number % 2 else _name(number),
        "pattern_type_filter": MATCH,
        "principal_filter": f"User:nobody-{number}",
    }


def _many_filters(nodes: Nodes) -> str:
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        answer = client.call("delete_acls", 3, filters=[_filters(number) for number in range(FILTERS)])
    return in_words(codes_in(answer))


def _many_described(nodes: Nodes) -> str:
    """Request all entries, three times."""
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        answers = [client.call("describe_acls", 3, **_ALL) for _ in range(3)]
    return f"{len(answers)} x {sum(len(one.acls) for one in answers[0].resources):,} entries"


# ---- denials -------------------------------------------------------------------------------------------


def _audit_flood(nodes: Nodes) -> str:
    """Request very many topics and groups without the right to them, each only once."""

    def request(place: int) -> Counter[int]:
        codes: Counter[int] = Counter()
        with nodes.connect(timeout_s=TIMEOUT_S) as client:
            for number in range(DENIED_ROUNDS):
                stem = f"{place}-{number}-\\x1b[2J\n"
                groups = [f"{stem}{one}" for one in range(NAMES_PER_REQUEST)]
                codes += codes_in(client.call("describe_groups", 5, groups=groups))
                topics = [{"name": f"t-{place}-{number}-{one}"} for one in range(NAMES_PER_REQUEST)]
                codes += codes_in(client.call("metadata", 12, topics=topics))
        return codes

    with ThreadPoolExecutor(DENIALS) as threads:
        codes = sum(threads.map(request, range(DENIALS)), Counter[int]())
    assert not codes[ErrorCode.NONE], in_words(codes)
    return in_words(codes)


def _forged_proofs(nodes: Nodes) -> str:
    """Claim to be a node's REST API acting for the administrator; send a request that needs its rights."""

    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        described = client.call("metadata", 12, topics=[])
    cluster_id = uuid_from_text(described.cluster_id)

    def forge(number: int) -> str:
        with nodes.connect(timeout_s=TIMEOUT_S) as client:
            try:
                client.call("act_for", 0, step=0, node_id=number % 3, cluster_id=cluster_id, nonce=b"n" * 32)
                client.call(
                    "act_for",
                    0,
                    step=1,
                    principal="User:admin" + "x" * (number % 2_000),
                    host="127.0.0.1",
                    is_local=True,
                    proof=os.urandom(32),
                )
                wanted = [{"user": USER}]
                answer = client.call("describe_user_scram_credentials", 0, users=wanted)
            except Closed:
                return "closed"
            return ErrorCode(answer.error_code).name

    with ThreadPoolExecutor(THREADS) as threads:
        results = Counter(threads.map(forge, range(PROOFS)))
    assert not results["NONE"], "a forged proof was accepted"
    return ", ".join(f"{count} x {word}" for word, count in sorted(results.items()))


# ---- metrics of clients -----------------------------------------------------------------------------------


def _subscribe(nodes: Nodes) -> None:
    configs = [
        {"name": name, "config_operation": 0, "value": value}
        for name, value in (("metrics", "*"), ("interval.ms", INTERVAL_MS))
    ]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": "all", "configs": configs}
    with nodes.connect() as client:
        answer = client.call("incremental_alter_configs", 1, resources=[resource])
        assert not answer.responses[0].error_code, answer


def _filled(one: Callable[[int], bytes]) -> bytes:
    """Return about a megabyte of metrics of one kind."""
    made: list[bytes] = []
    size = 0
    while size < PUSH_BYTES:
        made.append(one(len(made)))
        size += len(made[-1]) + 4
    return metrics_data(*made)


def _nested() -> bytes:
    content = b""
    while len(content) < PUSH_BYTES // 2:
        content = bytes_field(1, bytes_field(2, content + b"\x0a\x00"))
    return content


def _pushed() -> Sequence[tuple[Compression, bytes]]:
    """Return contents to push: endless series, wide points, bare fields, and bombs of 64 MiB."""
    plain = [
        _filled(lambda number: gauge(f"series-{number}", point(1.5))),
        _filled(
            lambda number: total(
                "n" * 250, point(1, attributes={f"key-{one}-{number}": "v" * 100 for one in range(32)})
            )
        ),
        _filled(lambda number: histogram(f"empty-{number}")),
        number_field(9, 1) * (PUSH_BYTES // 2),
        b"\x0a\x00" * (PUSH_BYTES // 2),
        b"\xff" * PUSH_BYTES,
        varint(1 << 3 | 2) + varint(1 << 62) + bytes(100),
        os.urandom(PUSH_BYTES),
        _nested(),
    ]
    bombs = [
        (kind, bytes(compress(kind, b"\x0a\x00" * (32 << 20))))
        for kind in (Compression.ZSTD, Compression.GZIP, Compression.LZ4)
    ]
    return [(Compression.NONE, one) for one in plain] + bombs


def _telemetry(nodes: Nodes) -> str:
    """Push as new clients, which need not wait for the interval between pushes."""
    contents = _pushed()

    def push(number: int) -> int:
        compression, content = contents[number % len(contents)]
        with nodes.connect(timeout_s=TIMEOUT_S, client_id=f"client-{number}") as client:
            subscription = client.call("get_telemetry_subscriptions", 0, client_instance_id=os.urandom(16))
            time.sleep(int(INTERVAL_MS) / 1_000)
            answer = client.call(
                "push_telemetry",
                0,
                client_instance_id=subscription.client_instance_id,
                subscription_id=subscription.subscription_id,
                compression_type=int(compression),
                metrics=content,
            )
            return int(answer.error_code)

    with ThreadPoolExecutor(THREADS) as threads:
        codes = Counter(threads.map(push, range(PUSHES)))
    scraped = len(nodes.scrape())
    assert scraped <= MAX_SCRAPE_BYTES, f"a scrape has {scraped} bytes"
    return f"{in_words(codes)}; a scrape of {scraped / 1e6:.1f} MB"


_OF_USER: Final[dict[str, Any]] = {"is_secure": True, "role": Role.USER, "node_counts": (1,)}
_OF_ADMINISTRATOR: Final[dict[str, Any]] = {**_OF_USER, "role": Role.ADMINISTRATOR}

ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="denials",
        sends=f"{DENIALS * DENIED_ROUNDS * 2 * NAMES_PER_REQUEST:,} topics and groups that a user may not "
        "see",
        send=_audit_flood,
        cpu_s=25.0,  # some 70 us for each name: decode, authorize, deny, count, respond
        **_OF_USER,
    ),
    Attack(
        name="forged-proofs",
        sends=f"{PROOFS:,} connections of a user that claim to act for the administrator",
        send=_forged_proofs,
        cpu_s=6.0,
        **_OF_USER,
    ),
    Attack(
        name="telemetry",
        sends=f"{PUSHES} pushes of a megabyte: endless series, wide points, bare fields, bombs",
        send=_telemetry,
        prepare=_subscribe,
        cpu_s=20.0,
        # The last pushes of clients (client_metrics), decompressed pushes, and expositions of up to 32 MiB.
        growth_mib=192.0,
        **_OF_USER,
    ),
    Attack(
        name="questions-among-many-acls",
        sends=f"{CHECKS} times {NAMES_PER_REQUEST:,} topics, where there are {ACLS:,} ACLs",
        send=_random_checks,
        prepare=_make_acls,
        cpu_s=8.0,
        **_OF_USER,
    ),
    Attack(
        name="many-acl-filters",
        sends=f"DeleteAcls with {FILTERS:,} filters, where there are {ACLS:,} ACLs",
        send=_many_filters,
        prepare=_make_acls,
        cpu_s=6.0,
        **_OF_ADMINISTRATOR,
    ),
    Attack(
        name="many-acls-described",
        sends=f"DescribeAcls three times, where there are {ACLS:,} ACLs",
        send=_many_described,
        prepare=_make_acls,
        cpu_s=6.0,
        **_OF_ADMINISTRATOR,
    ),
)
