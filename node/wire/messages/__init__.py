"""The shape of every API, a module each: request and response, all versions in one class.

Names, types, versions, tags and defaults are those of Apache Kafka 4.4; `logstore/words/schema` has the
notation. A module is imported when its API is first used: `codec.request_class(key)` and
`codec.response_class(key)`.
"""
