"""ottla.node.share: the partitions that this node leads, as share groups read them (KIP-932). Bottom-up:

record_state         the states of a record that is in flight, and the table of their moves
share_words          what a share-partition is told and asked, and what it answers
in_flight_records    the states of the records in flight, by ranges of offsets, in arrays
delayed_index        which records are not due yet, and when they are
acquisition_locks    when the next lock of a share-partition ends
share_window         the records in flight between a start and an end offset, and how both move
delayed_delivery     records that are not due yet wait in the window
acquire_records      records that a fetch has read are given to a member
acknowledge_records  what a member says of records that it holds
release_records      what members leave behind: sessions that ended, locks whose time is over
share_partition      one partition as one share group reads it
"""
