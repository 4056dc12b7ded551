"""logstore: the log of one partition, the logs of one disk, and the words that all packages share.

The map, bottom-up; a module imports only from lines above its own:

errors              ErrorCode, KafkaError
topic_partition     the name of a partition; legal topic names; ids as text
schema              the notation of wire messages and records: field functions, @struct, @message
"""
