"""ottla.groupcoord.offsets: the committed offsets of groups, in transactions and outside of them.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

offset_commands     what is asked of committed offsets
offset_results      what is answered about offsets
offset_values       the bytes of a committed offset, packed and read

State:

offset_bytes        what committed offsets take, and the most that they may
offset_store        the committed offsets of a shard
pending_offsets     offsets of open transactions, and which of them counts in the end
offset_log_scan     what the batches of a log come to: the last record of each key

Decisions:

offset_commit       OffsetCommit, TxnOffsetCommit
offset_fetch        OffsetFetch
offset_delete       OffsetDelete, and offsets of topics that are gone
offset_expiry       expiry of offsets and groups; DeleteGroups
"""
