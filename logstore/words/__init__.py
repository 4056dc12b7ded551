"""ottla.logstore.words: what all packages say, and what knows nothing of a log.

Error codes, names of partitions, and the notations in which messages, records and settings are written.

The map, bottom-up; a module imports only from lines above its own, and nothing else of Ottla:

errors              ErrorCode, KafkaError
error_words         sentences about errors where a server gives none
dial_errors         why a connection could not be made, in words
escaped_text        control characters as escapes, for terminals and logs
latency             how long things take, in fixed buckets
topic_partition     the name of a partition; legal topic names; ids as text
old_names           settings of Kafka 0.8 and earlier, and what is to be written instead
config_def          a table of settings: types, limits, parsing by Kafka's rules
varint              zig-zag varints of the record format
schema              the notation of wire messages and records: field functions, @struct, @message
schema_source       Python source under construction
schema_decode       writes the decoder of one version of a message
schema_encode       writes its encoder
schema_compiler     decoder(cls, version), encoder(cls, version), compiled when first used
"""
