"""/healthz and /readyz: a node's own health, for the kubelet, load balancers and scripts.

/healthz does not depend on the quorum: a node that waits for other voters is alive, and a restart would not
help it. Both answer with a sentence in any state of the cluster.
"""

from typing import Any, Final

from ottla.logstore.words.errors import KafkaError
from ottla.node.rest_api.node_pulse import ALIVE, READY
from ottla.node.rest_api.operation_words import record
from ottla.node.rest_api.read_status import state_of
from ottla.node.rest_api.readiness import problem_of
from ottla.node.rest_api.route import STRING, Answer, Response, RestContext, RestRequest, Route

TAG: Final = "Node"
_STATUS: Final = record({"status": STRING, "message": STRING}, title="NodeStatus")


def _status(status: int, word: str, sentence: str) -> Answer:
    return Answer(status=status, body={"status": word, "message": sentence})


async def get_healthz(context: RestContext, request: RestRequest) -> Answer:
    try:
        await context.facts.ask(lambda _: None)
    except KafkaError as error:
        return _status(503, "dead", error.detail)
    return _status(200, "alive", ALIVE)


async def get_readyz(context: RestContext, request: RestRequest) -> Answer:
    try:
        node = await context.facts.ask(state_of)
    except KafkaError as error:
        return _status(503, "not ready", error.detail)
    problem = problem_of(node, has_caught_up=context.facts.state.has_caught_up)
    if problem is not None:
        return _status(503, "not ready", problem)
    context.facts.state.has_caught_up = True
    return _status(200, "ready", READY)


def _probe(path: str, handler: Any, operation_id: str, summary: str, description: str, bad: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        operation_id=operation_id,
        summary=summary,
        description=description,
        tag=TAG,
        uses_cluster=False,
        is_open=True,
        responses={
            200: Response(description="It is.", schema=_STATUS),
            503: Response(description=bad, schema=_STATUS),
        },
    )


ROUTES: Final = (
    _probe(
        "/healthz",
        get_healthz,
        "getHealthz",
        "Report whether the process is alive.",
        "For liveness probes: succeeds while the process runs and its event loop responds, "
        "whatever the state of the quorum.",
        "The event loop does not respond.",
    ),
    _probe(
        "/readyz",
        get_readyz,
        "getReadyz",
        "Report whether the node is ready.",
        "For readiness probes: succeeds if the node serves clients, is not fenced, is in "
        "contact with the controller, and all its replicas have been in sync since it started.",
        "The node is not ready; the message says why.",
    ),
)
