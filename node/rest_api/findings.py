"""/v1/doctor, and the causes in /v1/health: the findings of `ottla doctor`, made by a node.

A node examines its cluster one request at a time, and keeps the findings for a moment for callers with the
same rights, so that pages which ask every few seconds cost a cluster little.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.node.client.cluster_health import Health
from ottla.node.client.quorum_silence import moment_as_text
from ottla.node.clock import monotonic_s
from ottla.node.doctor.ask_cluster import Dial
from ottla.node.doctor.diagnosis import NodeAnswers, ask_nodes, causes_of, diagnose_cluster
from ottla.node.doctor.finding import Finding, Severity, as_record, by_severity
from ottla.node.net.act_for import Caller
from ottla.node.node_facts import NodeFacts
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.operation_words import listed, record
from ottla.node.rest_api.route import BOOLEAN, STRING, Answer, Response, RestContext, RestRequest, Route

T = TypeVar("T")
CAUSES_KEPT_S: Final = 2.0  # a page of the console asks every three seconds
CAUSES_TIMEOUT_S: Final = 0.8  # the overview is asked first, and an answer comes within a second
DOCTOR_KEPT_S: Final = 10.0
STEP_TIMEOUT_S: Final = 2.0  # for each address: the nodes of a cluster are near each other
MAX_KEPT: Final = 32  # callers whose findings are kept
FINDING: Final = record(
    {
        "severity": {"type": "string", "enum": [one.value for one in Severity]},
        "subject": STRING,
        "message": STRING,
    },
    title="Finding",
)
FINDINGS: Final[Schema] = listed(FINDING)
_DOCTOR: Final = record({"is_healthy": BOOLEAN, "checked_at": STRING, "findings": FINDINGS}, title="Doctor")


class Found(NamedTuple, Generic[T]):
    """Findings, and when they were made."""

    what: T
    found_s: float
    found_ms: int


class Kept(Generic[T]):
    """Findings by caller, since they depend on rights; the oldest are dropped first."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._by_caller: dict[Caller, Found[T]] = {}
        self._lock = asyncio.Lock()

    async def get(self, caller: Caller, find: Callable[[], Awaitable[T]]) -> Found[T]:
        """Return the recent findings for this caller, or make them now; only one caller does so at a time."""
        async with self._lock:
            found = self._by_caller.get(caller)
            if found is None or monotonic_s() - found.found_s >= self._kept_s:
                found = Found(await find(), monotonic_s(), int(time.time() * 1000))
                self._by_caller.pop(caller, None)
                self._by_caller[caller] = found
                if len(self._by_caller) > MAX_KEPT:
                    del self._by_caller[next(iter(self._by_caller))]
            return found


class Findings:
    """The last findings of one node."""

    def __init__(self, facts: NodeFacts) -> None:
        self.causes: Kept[NodeAnswers] = Kept(CAUSES_KEPT_S)
        self.doctor: Kept[list[Finding]] = Kept(DOCTOR_KEPT_S)


async def causes(context: RestContext, health: Health) -> list[dict[str, str]]:
    """Return the causes of the cluster's state, a sentence for each, from the nodes that answer in time."""

    async def ask() -> NodeAnswers:
        return await ask_nodes(context.client.until(context.deadline.within(CAUSES_TIMEOUT_S)), health)

    answers = await context.facts.keep(Findings).causes.get(context.caller, ask)
    return [as_record(one) for one in causes_of(health, answers.what)]


async def get_doctor(context: RestContext, request: RestRequest) -> Answer:
    async def find() -> list[Finding]:
        facts = context.facts
        dial = Dial(facts.connect_for(context.caller), facts.dial_tls)
        return by_severity(await diagnose_cluster(facts.bootstrap(), timeout_s=STEP_TIMEOUT_S, dial=dial))

    try:
        async with asyncio.timeout(context.deadline.remaining_s):
            found = await context.facts.keep(Findings).doctor.get(context.caller, find)
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The nodes did not answer in time.") from None
    return Answer(
        body={
            "is_healthy": all(one.severity is not Severity.PROBLEM for one in found.what),
            "checked_at": moment_as_text(found.found_ms),
            "findings": [as_record(one) for one in found.what],
        }
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/doctor",
        asks=AclOperation.DESCRIBE,
        handler=get_doctor,
        operation_id="getDoctor",
        summary="The problems of the cluster, a sentence for each: the findings of ottla doctor.",
        description="The node examines listeners, advertised addresses, the metadata quorum, disks, clocks, "
        "versions and partitions with the rights of the caller, and keeps what it found for "
        f"{DOCTOR_KEPT_S:g} seconds. A problem is something that does not work, or soon will not; a note "
        "may be intended.",
        tag="Operations: cluster",
        responses={200: Response(description="Problems first, then notes.", schema=_DOCTOR)},
    ),
)
