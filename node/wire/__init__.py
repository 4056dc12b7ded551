"""ottla.node.wire: the bytes of the Kafka protocol and the objects that represent them. Bottom-up:

api_keys        the APIs of the Kafka protocol by number
peer_api        the APIs that nodes of a cluster use among themselves
request_limits  the limits of a request's texts, bytes and elements
messages        the shape of each request and response, a module for each API
headers         the request and response headers, which precede every body
codec           encodes and decodes whole frames
framing         splits a byte stream into frames
describe        messages as readable text
acknowledge_type  the ways to acknowledge a record of a share group
sasl_mechanisms  the mechanisms of SASL by name
jaas            parses login modules in settings
dead_letter_headers  the names of the headers of dead letters
"""
