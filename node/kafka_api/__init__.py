"""ottla.node.kafka_api: what a node answers.

`request_charge` (what a request costs a client with a quota), `request_context` (what a handler knows of a
request), `charged_results` (how an answer tells of quotas), `api_description` (what a module says of its
API), `served_apis` (which APIs there are, with their versions), `request_decoders`, `share_state_requests`
(what the APIs of the share coordinator have in common), `describe_right` (a member's right to describe its
topics), one module per API with its `API` and its `handle(services, context, request)`, `repeated_produce`
(the same answers as `produce`, without decoding the same again), `changes` and `told_changes` (the changes
that the audit log tells), `dispatch` (from frames to handlers and back), `sasl_gate` (the same for clients
that have not logged in).
"""
