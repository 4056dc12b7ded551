"""ottla.logstore.words: the vocabulary that all packages share; nothing in it knows about logs.

It has error codes, names of partitions, and the notations of messages, records and settings.

The map, bottom-up; a module imports only from lines above its own, and nothing else of Ottla:

errors              ErrorCode, KafkaError
error_words         describes an error code in a sentence, where the server sent no message
dial_errors         describes why a connection could not be made
escaped_text        replaces control characters by escapes, for terminals and logs
latency             histograms of latencies, in fixed buckets
topic_partition     the name of a partition; legal topic names; ids as text
old_names           settings of older Kafka versions, and their replacements
config_def          a table of settings: types, limits, parsing by Kafka's rules
varint              zig-zag varints of the record format
schema              the notation of wire messages and records: field functions, @struct, @message
schema_source       collects the source of one generated function and compiles it
schema_decode       generates the decoder of one version of a message
schema_encode       generates its encoder
schema_compiler     decoder(cls, version), encoder(cls, version), compiled when first used
"""
