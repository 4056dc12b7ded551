"""Send the same requests to two servers, and compare the responses except for the servers' own values.

    python -m tests.compat.differential.compare OTTLA:PORT KAFKA:PORT [API [TEXT]]
prints every difference in the cases of the API whose name contains TEXT; allowed differences only with `-v`.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from ottla.logstore.words.schema import schema_of
from tests.compat.differential.cases import Case, Context
from tests.compat.differential.table import ALLOWED, CASES
from tests.compat.wire_client import Closed, WireClient, eventually, message_class, only, plain

ANSWER_TIMEOUT_S = 30.0
SOFTWARE = {"client_software_name": "differ", "client_software_version": "1"}
# Fields whose values each server chooses, with the values that mean "none". All other values become "given".
OWN = {
    "cluster_id": (None, ""),
    "topic_id": (bytes(16),),
    "host": (None, ""),
    "port": (-1, 0),
    "session_id": (0,),
    "member_id": (None, ""),
    "leader": (None, ""),
    "log_append_time_ms": (-1,),
    "producer_id": (-1,),
    "total_bytes": (-1,),
    "usable_bytes": (-1,),
    "log_dir": (None, ""),
    "error_message": (None, ""),
    "batch_index_error_message": (None, ""),
    "documentation": (None, ""),
    "last_timestamp": (-1,),
    "finalized_features_epoch": (-1,),
}
NODE_IDS = ("node_id", "leader_id", "controller_id", "broker_id")
NODE_ID_LISTS = ("replica_nodes", "isr_nodes", "offline_replicas")
# Fields that name an item. Lists are sorted by them, since servers return items in any order.
NAMES = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "key",
    "api_key",
    "index",
    "partition_index",
    "partition",
    "resource_name",
    "topic_id",
    "user",
    "entity",
    "entity_type",
    "mechanism",
)
NOTES = ("error_message", "batch_index_error_message")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place of one response in which the two servers differ."""

    case: str
    api: str
    version: int
    path: str
    ottla: object
    kafka: object

    def __str__(self) -> str:
        where = f"{self.api} v{self.version} [{self.case}] {self.path}"
        return f"{where}: ottla {self.ottla!r}, kafka {self.kafka!r}"

    def reason(self) -> str | None:
        """Return the reason why this difference is allowed, or None."""
        label = f"{self.api} {self.case} {self.path}"
        for pattern, reason in ALLOWED.items():
            if re.search(pattern, label):
                return reason
        return None


def normal(value: Any, name: str, node: int) -> Any:
    """Return a response without the values that the server may choose itself."""
    if isinstance(value, dict):
        return {key: normal(one, key, node) for key, one in value.items()}
    if isinstance(value, list):
        if name in NODE_ID_LISTS:
            return ["own" if one == node else one for one in value]
        items = [normal(one, name, node) for one in value]
        return sorted(items, key=order) if items and isinstance(items[0], dict) else items
    if name in OWN and value not in OWN[name]:
        return "given"
    if (name in NODE_IDS and value == node) or (name == "resource_name" and value == str(node)):
        return "own"
    return value


def order(item: dict[str, Any]) -> list[str]:
    return [str(item[name]) for name in NAMES if name in item]


def differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each place where two normalised responses differ, with both values.

    Config entries are matched by their name.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one:
            yield from differences(one[key], other.get(key, "absent"), f"{path}.{key}" if path else key)
    elif isinstance(one, list) and isinstance(other, list):
        if all(isinstance(item, dict) and "name" in item for item in one + other) and "configs" in path:
            mine, theirs = ({item["name"]: item for item in items} for items in (one, other))
            for name in sorted(mine.keys() | theirs.keys()):
                if name in mine and name in theirs:
                    yield from differences(mine[name], theirs[name], f"{path}[{name}]")
                else:
                    yield f"{path}[{name}]: only {'ottla' if name in mine else 'kafka'}", name, name
        elif len(one) != len(other):
            yield path, one, other
        else:
            for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
                yield from differences(mine, theirs, f"{path}[{index}]")
    # Ottla may give an error message where Kafka gives none, but not the reverse.
    elif one != other and not (path.endswith(NOTES) and other in (None, "")):
        yield path, one, other


def prime(client: WireClient) -> None:
    """Wait for coordinators and producer ids: a freshly started Kafka answers 14 and 15 for a while."""
    producer = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    eventually(lambda: client.call("init_producer_id", 4, **producer), lambda found: found.error_code == 0)
    wanted = {"key": "differ-group", "key_type": 0}
    eventually(lambda: client.call("find_coordinator", 2, **wanted), lambda found: found.error_code == 0)
    member = {"generation_id": 1, "member_id": "nobody"}
    for number in range(100):  # until every shard of the offsets topic has loaded
        request = {"group_id": f"prime-{number}", **member}
        eventually(partial(client.call, "heartbeat", 3, **request), lambda found: found.error_code == 25)


class Side:
    """One of the two servers, with the topics that the cases name."""

    def __init__(self, bootstrap: str, run: str) -> None:
        self.bootstrap = bootstrap
        with WireClient(bootstrap) as client:
            broker = only(client.call("metadata", 12, topics=[]).brokers)
            self.node = int(broker.node_id)
            found = client.call("api_versions", 3, **SOFTWARE)
            self.ranges = {one.api_key: (one.min_version, one.max_version) for one in found.api_keys}
            self.context = Context.create(client, run, self.node)
            prime(client)
        self._client: WireClient | None = None

    def answer(self, case: Case, version: int) -> Any:
        """Return the normalised response as nested dicts; without one, it is "closed" or "silent"."""
        self.context.version = version
        if self._client is None:
            self._client = WireClient(self.bootstrap, client_id="differ", timeout_s=ANSWER_TIMEOUT_S)
        try:
            answer = self._client.call(case.api, version, **case.fields(self.context))
        except (Closed, TimeoutError) as failure:
            self.close()
            return "closed" if isinstance(failure, Closed) else "silent"
        return normal(plain(answer, version), "", self.node)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def compare(ottla: str, kafka: str, api: str = "", text: str = "") -> Iterator[Difference]:
    """Yield all differences in the cases of `api` whose name contains `text`, in all common versions."""
    run = os.urandom(3).hex()
    cases = [case for case in CASES if api in ("", case.api) and text in case.name]
    with closing(Side(ottla, run)) as mine, closing(Side(kafka, run)) as theirs:
        for case in cases:
            yield from _differences_of(case, mine, theirs)


def _differences_of(case: Case, mine: Side, theirs: Side) -> Iterator[Difference]:
    named = partial(Difference, case=case.name, api=case.api)
    schema = schema_of(message_class(case.api, "Request"))
    key = schema.api_key or 0
    if key not in mine.ranges:
        yield named(version=0, path="", ottla="not served", kafka="served")
        return
    first = max(mine.ranges[key][0], theirs.ranges[key][0], schema.min_version)
    last = min(mine.ranges[key][1], theirs.ranges[key][1])
    for version in case.versions(first, last):
        for path, one, other in differences(mine.answer(case, version), theirs.answer(case, version)):
            yield named(version=version, path=path, ottla=one, kafka=other)


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "-v"]
    seen: dict[tuple[str, str, str, str], dict[str, list[int]]] = {}
    for found in compare(*words):
        if found.reason() is None or "-v" in sys.argv:
            label = (found.api, found.path, repr(found.ottla)[:300], repr(found.kafka)[:300])
            seen.setdefault(label, {}).setdefault(found.case, []).append(found.version)
    for (api, path, one, other), cases in seen.items():
        where = ", ".join(f"{case} v{versions[0]}-{versions[-1]}" for case, versions in cases.items())
        print(f"{api} {path} [{where}]\n    ottla {one}\n    kafka {other}")
    print(f"{len(seen)} differences")


if __name__ == "__main__":
    main()
