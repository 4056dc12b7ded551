"""/v1/transactions and /v1/producers: show and abort transactions, and show the producers of a log."""

from typing import Any, Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import txn_admin, txn_as_json, txn_control
from ottla.node.rest_api.json_schema import Schema
from ottla.node.rest_api.operation_words import (
    MISSING,
    MISSING_DESCRIPTION,
    NULL_INT64,
    TOPIC,
    listed,
    missing_brokers,
    record,
)
from ottla.node.rest_api.rest_error import not_found
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    INT64,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Operations: transactions"
# As of `ottla txn find-hanging` and of Kafka's tool: the default of transaction.max.timeout.ms, after which a
# coordinator has ended its own transactions.
DEFAULT_HANGING_MS: Final = 15 * 60_000
MAX_LENGTH: Final = 32_767  # of a string in the protocol
_ANY_INT64: Final[Schema] = {"type": "integer", "format": "int64"}
_ANY_INT32: Final[Schema] = {"type": "integer", "format": "int32"}
_ID: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH}

_LISTED: Final = record(
    {
        "transactions": listed(
            record(
                {
                    "id": STRING,
                    "state": STRING,
                    "producer": _ANY_INT64,
                    "coordinator": INT32,
                    "open_for_ms": NULL_INT64,
                    "timeout_ms": NULL_INT64,
                    "two_phase": {"type": ["boolean", "null"]},
                },
                title="ListedTransaction",
            )
        ),
        "missing": MISSING,
    },
    title="Transactions",
)
_TRANSACTION: Final = record(
    {
        "id": STRING,
        "state": STRING,
        "producer": _ANY_INT64,
        "epoch": _ANY_INT32,
        "timeout_ms": NULL_INT64,
        "two_phase": BOOLEAN,
        "began_ms": NULL_INT64,
        "open_for_ms": NULL_INT64,
        "coordinator": STRING,
        "partitions": listed(
            record(
                {
                    "topic": STRING,
                    "partition": INT32,
                    "open_from": NULL_INT64,
                    "deleted": BOOLEAN,
                    "leaderless": BOOLEAN,
                },
                title="TransactionPartition",
            )
        ),
    },
    title="Transaction",
)
_PRODUCER_FIELDS: Final[dict[str, Schema]] = {
    "topic": STRING,
    "partition": INT32,
    "producer": _ANY_INT64,
    "epoch": _ANY_INT32,
    "last_sequence": _ANY_INT32,
    "last_record_ms": NULL_INT64,
    "coordinator_epoch": _ANY_INT32,
    "open_from": NULL_INT64,
}
PRODUCER: Final = record(_PRODUCER_FIELDS, title="Producer")
_PRODUCERS: Final = record({"producers": listed(PRODUCER)}, title="Producers")
_HANGING: Final = record(
    {
        "hanging": listed(
            record({**_PRODUCER_FIELDS, "silent_for_ms": _ANY_INT64}, title="HangingTransaction")
        ),
        "leaderless": listed(record({"topic": STRING, "partition": INT32}, title="UnsearchedPartition")),
    },
    title="HangingTransactions",
)
_ABORT: Final[Schema] = {
    "title": "AbortRequest",
    "anyOf": [
        record({"transactional_id": _ID}),
        record({"topic": TOPIC, "partition": INT32, "start_offset": INT64}),
    ],
}
_ABORTED: Final = record({"aborted": BOOLEAN, "producer": NULL_INT64}, title="Aborted")


async def list_transactions(context: RestContext, request: RestRequest) -> Answer:
    query = request.query
    answers = await txn_admin.list_transactions(
        context.client,
        states=[query["state"]] if "state" in query else (),
        producer_ids=[query["producer_id"]] if "producer_id" in query else (),
        longer_than_ms=query.get("longer_than_ms"),
        pattern=query.get("pattern"),
    )
    found = answers.transactions
    views = await txn_admin.describe_open(context.client, found)
    return Answer(
        body={
            "transactions": txn_as_json.listed_as_json(found, views, _now_ms(context)),
            "missing": missing_brokers(answers.problems),
        }
    )


async def get_transaction(context: RestContext, request: RestRequest) -> Answer:
    view = await txn_admin.describe_transaction(context.client, request.path["transactional_id"])
    starts = await txn_control.start_offsets(context.client, view)
    return Answer(body=txn_as_json.transaction_as_json(view, starts, _now_ms(context)))


async def abort_transaction(context: RestContext, request: RestRequest) -> Answer:
    wanted: dict[str, Any] = request.body
    if "transactional_id" in wanted:
        await txn_control.abort(context.client, wanted["transactional_id"])
        return Answer(body={"aborted": True, "producer": None})
    partition = TopicPartition(wanted["topic"], wanted["partition"])
    producer = await txn_control.abort_in_log(context.client, partition, wanted["start_offset"])
    return Answer(body={"aborted": True, "producer": producer.producer_id})


async def list_hanging(context: RestContext, request: RestRequest) -> Answer:
    topic, broker_id = request.query.get("topic"), request.query.get("broker_id")
    if broker_id is not None:
        cluster = await context.client.refresh([])
        if broker_id not in {broker.node_id for broker in cluster.brokers}:
            raise not_found(f"Broker {broker_id} is not running.")
    found, leaderless = await txn_control.find_hanging(
        context.client,
        topics=None if topic is None else {topic: None},
        broker_id=broker_id,
        longer_than_ms=request.query.get("longer_than_ms", DEFAULT_HANGING_MS),
    )
    return Answer(
        body={
            "hanging": txn_as_json.hanging_as_json(found, _now_ms(context)),
            "leaderless": [{"topic": one.topic, "partition": one.partition} for one in leaderless],
        }
    )


async def list_producers(context: RestContext, request: RestRequest) -> Answer:
    partition = TopicPartition(request.path["topic_name"], request.path["partition_id"])
    found = await txn_admin.describe_producers(context.client, [partition])
    return Answer(body={"producers": txn_as_json.producers_as_json(found)})


def _now_ms(context: RestContext) -> int:
    return context.facts.services.clock.now_ms()


_LONGER_THAN: Final = "longer_than_ms"
_BROKER: Final = QueryParameter(
    name="broker_id", schema=INT32, description="Search only the replicas on this broker."
)

ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/transactions",
        handler=list_transactions,
        operation_id="listTransactions",
        summary="The transactional ids of the cluster.",
        description="For open transactions, also their age and their timeout, which is null "
        "where two_phase says that only the producer ends the transaction." + MISSING_DESCRIPTION,
        tag=TAG,
        query=(
            QueryParameter(
                name="state",
                schema={"type": "string", "enum": list(txn_admin.STATES)},
                description="Only ids in this state.",
            ),
            QueryParameter(name="producer_id", schema=INT64, description="Only ids of this producer."),
            QueryParameter(
                name=_LONGER_THAN,
                schema=INT64,
                description="Only transactions that are open for longer than this, in ms.",
            ),
            QueryParameter(
                name="pattern", schema=_ID, description="Only ids that match this regular expression."
            ),
        ),
        responses={200: Response(description="By id.", schema=_LISTED)},
    ),
    Route(
        method="GET",
        path="/v1/transactions/hanging",
        handler=list_hanging,
        operation_id="listHangingTransactions",
        summary="Hanging transactions: open in a partition, but not known to any coordinator.",
        description="Consumers with isolation level read_committed cannot read past them; abort them to "
        "let these consumers continue.",
        tag=TAG,
        query=(
            QueryParameter(
                name=_LONGER_THAN,
                schema=INT64,
                description=f"Without a new record for this long (default {DEFAULT_HANGING_MS}).",
            ),
            QueryParameter(name="topic", schema=TOPIC, description="Search only this topic."),
            _BROKER,
        ),
        responses={200: Response(description="By partition.", schema=_HANGING)},
    ),
    Route(
        method="GET",
        path="/v1/transactions/{transactional_id}",
        handler=get_transaction,
        operation_id="getTransaction",
        summary="A transactional id, with the partitions of its open transaction.",
        tag=TAG,
        path_parameters={"transactional_id": _ID},
        responses={
            200: Response(description="The transaction as its coordinator sees it.", schema=_TRANSACTION)
        },
    ),
    Route(
        method="POST",
        path="/v1/transactions/abort",
        handler=abort_transaction,
        operation_id="abortTransaction",
        is_for_administrators=True,
        summary="Abort a transaction: the open one of a transactional id, or a hanging one in a partition.",
        description="With transactional_id, the coordinator aborts the transaction and fences "
        "its producer. With topic, partition and start_offset, an abort marker is "
        "written to that partition only.",
        tag=TAG,
        request_schema=_ABORT,
        body_is_required=True,
        responses={200: Response(description="The transaction was aborted.", schema=_ABORTED)},
    ),
    Route(
        method="GET",
        path="/v1/producers/{topic_name}/{partition_id}",
        handler=list_producers,
        operation_id="listProducers",
        summary="The producers known to a partition.",
        tag=TAG,
        path_parameters={"topic_name": TOPIC},
        responses={200: Response(description="By id.", schema=_PRODUCERS)},
    ),
)
