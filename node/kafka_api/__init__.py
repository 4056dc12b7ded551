"""ottla.node.kafka_api: what a node answers.

`request_context` (what a handler knows, and the ways it may answer), `served_apis` (the table of versions),
one module per API with its `handle(services, context, request)`, `repeated_produce` (the same answers as
`produce`, without decoding the same again), `dispatch` (from frames to handlers and back).
"""
