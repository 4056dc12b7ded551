"""Client metrics subscriptions: which are accepted, how they are described, listed and removed (KIP-714)."""

from tests.compat.differential.cases import CLIENT_METRICS, case
from tests.compat.differential.topic_cases import alter, describe

SET, DELETE, APPEND = 0, 1, 2
NAME = "differ-metrics"


def settings(name: str, *changes: tuple[str, int, str | None], of: str = NAME) -> None:
    alter(f"client metrics {name}", *changes, kind=CLIENT_METRICS, resource=of)


settings("match", ("match", SET, "client_id=a.*, client_software_name = apache-kafka-java"))
settings("metrics", ("metrics", SET, "org.a., org.b."), ("interval.ms", SET, "1000"))
settings("without a name", ("metrics", SET, "*"), of="")
settings("unknown", ("no.such", SET, "1"))
settings("null", ("metrics", SET, None))
settings("appended", ("metrics", APPEND, "org.c."))
for value in ("99", "3600001", "soon", "", "2147483648"):
    settings(f"interval {value!r}", ("interval.ms", SET, value))
for value in ("a,a", "a,,b", ",", " ", "*"):
    settings(f"metrics {value!r}", ("metrics", SET, value))
for value in (
    "client_id",
    "client_id=",
    "=a",
    "client_id=a=b",
    "client_id=a=",
    "name=a",
    "client_id=(",
    "a,b",
):
    settings(f"match {value!r}", ("match", SET, value))
describe("client metrics", CLIENT_METRICS, NAME, include_synonyms=True, include_documentation=True)
describe("client metrics unknown", CLIENT_METRICS, "no-such", include_synonyms=True)
describe("client metrics without a name", CLIENT_METRICS, "")
case(
    "list_config_resources",
    "client metrics",
    lambda c: {"resource_types": [CLIENT_METRICS]} if c.version else {},
)
settings("removed", *((name, DELETE, None) for name in ("match", "metrics", "interval.ms")))
settings("removed again", ("match", DELETE, None))
case(
    "list_config_resources", "none left", lambda c: {"resource_types": [CLIENT_METRICS]} if c.version else {}
)
