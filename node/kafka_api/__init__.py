"""ottla.node.kafka_api: what a node answers. Bottom-up, in three layers.

Words, which APIs share:

request_charge   what a request costs a client with a quota
request_context  what a handler knows of a request
api_description  what a module says of its API
served_apis      which APIs there are, with their versions
request_decoders  the decoders of requests, with the limits of each API
refusals         the answer to a request that is refused before it is read
request_timeout  how long a request that changes metadata may wait
describe_right   a member's right to describe its topics
authorized_operations  what a client may do with a resource, as responses have it
acl_requests     limits and filters of requests about ACLs
delegation_tokens  delegation tokens, which are off
config_entries   settings with their values and where these come from
config_resources  from resource numbers to one command
internal_topics  who may write the topics that brokers keep for themselves
leader_hints     where the leader of a partition is now
fetch_answer     the answer to a fetch, made in three steps
replica_fetch    a fetch as a follower sends it
produce_append   one Produce request while its partitions are appended to
produce_heads    what stands before the batch in Produce requests, known by its bytes
transactional_produce  Produce in a transaction
repeated_produce  the answers of `produce`, without decoding the same again
packed_commit    OffsetCommit requests without metadata, read by columns
share_acknowledgements  acknowledgements of share groups, as two APIs bring them
share_state_requests  what the APIs of the share coordinator have in common

APIs: one module each, by its name, with its `API` and its `handle(services, context, request)`.

Dispatch, from frames to handlers and back:

charged_results  how an answer tells of quotas
changes          the changes of the cluster that the audit log tells, read from requests
told_changes     these changes, once their outcome is there
routes           how each version of an API is read, served and written
peer_proofs      how a connection becomes that of a node, or of a caller for whom a node acts
dispatch         one table of routes
sasl_gate        the same for clients that have not logged in
"""
