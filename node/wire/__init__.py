"""ottla.node.wire: bytes of the Kafka protocol and the objects that they stand for.

Bottom-up: `api_keys` and `peer_api` (numbers and names of the APIs), `messages/` (the shape of each),
`headers` (what stands before every body), `codec` (whole frames), `framing` (a byte stream cut into frames),
`describe` (for people);
beside them, for clients and nodes, `sasl_mechanisms` (their names), `jaas` (login modules in settings) and
`dead_letter_headers` (their names).
"""
