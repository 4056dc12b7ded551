"""ottla.node.kafka_api: the APIs of Kafka that a node serves. Bottom-up, in three layers.

Words that APIs share:

request_charge   charges a request to a client with a quota
request_context  the facts that a handler knows about a request
api_description  the description that each API's module gives of it
served_apis      the APIs that a node serves, with their versions
request_decoders  the decoders of requests, with the limits of each API
refusals         the response to a request that is rejected before it is handled
answered_once    elements that a request repeats, which are answered once
request_timeout  limits of the timeout of a request that changes metadata
describe_right   a member's right to describe its topics
authorized_operations  the operations that a client may do on a resource, as responses encode them
acl_requests     limits and filters of requests about ACLs
delegation_tokens  delegation tokens, which are disabled
config_entries   settings with their values and the sources of these
config_resources  makes one command from the resources of AlterConfigs
internal_topics  the rules about writes to internal topics
leader_hints     the current leader of a partition, returned with an error
fetch_answer     answers a fetch in three steps
replica_fetch    answers a fetch of a follower
produce_append   appends the batches of a Produce request
produce_heads    recognizes the bytes before the batch in Produce requests
transactional_produce  Produce in a transaction
repeated_produce  answers repeated Produce requests without decoding them again
packed_commit    OffsetCommit requests without metadata, read by columns
share_acknowledgements  acknowledgements of share groups, which two APIs have
share_state_requests  the common parts of the APIs of the share coordinator

APIs: one module each, by its name, with its `API` and its `handle(services, context, request)`.

Dispatch, from frames to handlers and back:

charged_results  charges results to clients and puts throttle times into responses
changes          reads the changes of the cluster from requests, for the audit log
audited_changes     writes these changes to the audit log when their outcome is known
routes           the decoder, handler and encoder of each version of an API
peer_proofs      turns a connection into that of a node, or of a caller for whom a node acts
dispatch         one table of routes
sasl_gate        serves clients that have not logged in
"""
