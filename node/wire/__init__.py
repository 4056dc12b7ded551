"""ottla.node.wire: bytes of the Kafka protocol and the objects that they stand for. Bottom-up:

api_keys        the APIs of the protocol by number
peer_api        those that nodes of a cluster speak among themselves
request_limits  how long texts and bytes of requests may be, and how many elements they may have
messages        the shape of each request and response, a module for each API
headers         what stands before every body
codec           whole frames
framing         a byte stream cut into frames
describe        messages in words, for people
acknowledge_type  the ways to acknowledge a record of a share group
sasl_mechanisms  the mechanisms of SASL by name
jaas            login modules in settings
dead_letter_headers  the names of the headers of dead letters
"""
