"""A shard made of what is left of its log, in whatever thread has the time: nobody else sees it yet."""

from collections.abc import Callable

from groupcoord.offset_log_scan import PAUSE_RECORDS, ScannedLog
from groupcoord.record_codec import decode_record
from groupcoord.shard import Shard
from logstore.errors import KafkaError


def load_shard(scanned: ScannedLog, shard: Shard, *, pause: Callable[[], None] = lambda: None) -> Shard:
    """The empty `shard`, filled; a record that cannot be read is left out and added to `scanned.unreadable`.

    Groups come first, in the order of the log, then offsets: these make a group where there is none. `pause`
    is called as in `LogScan`.
    """
    for count, (key, value) in enumerate(scanned.others, 1):
        try:
            record = decode_record(key, value)
        except KafkaError as error:
            scanned.unreadable.add(error.detail)
            continue
        if record is not None:
            shard.replay(record)
        if count % PAUSE_RECORDS == 0:
            pause()
    shard.offsets, shard.pending = scanned.offsets, scanned.pending
    for group_id in (*shard.offsets.groups(), *shard.pending.groups()):
        shard.keep_group_of_offsets(group_id)
    return shard
