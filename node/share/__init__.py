"""ottla.node.share: the partitions that this node leads, as share groups read them (KIP-932). Bottom-up:

record_state         the states of a record that is in flight, and the table of their moves
repeated_line        a line of the log that comes again and again, told once a minute
share_words          what a share-partition is told and asked, and what it answers
in_flight_records    the states of the records in flight, by ranges of offsets, in arrays
delayed_index        which records are not due yet, and when they are
acquisition_locks    when the next lock of a share-partition ends
share_window         the records in flight between a start and an end offset, and how both move
delayed_delivery     records that are not due yet wait in the window
acquire_records      records that a fetch has read are given to a member
acknowledge_records  what a member says of records that it holds
release_records      what members leave behind: sessions that ended, locks whose time is over
dead_letters         the dead letters that are on their way, and their note in the state
set_aside            records that wait for their dead letters
window_view          what a share-partition has in flight, in sums and the few ranges that matter first
share_partition      one partition as one share group reads it
share_sessions       the partitions that a member reads from this node, named once
share_group_settings  what a share group obeys at the leaders of partitions
initial_offset       where a group begins that has read nothing of a partition
read_batches         the batches of a slice of the log, by their headers
read_delays          when the records of these batches are due
share_timers         when locks end and delayed records are due, by two clocks
dead_letter_topic    where dead letters go, by the rules of the cluster
letter_batch         batches of dead letters: what the log has of the records, and words about them
letter_lanes         the order in which dead letters go, by the partition they go to
led_partition        a share-partition with the partition under it and those who wait for its records
share_fetch          a share fetch while it is served: what there is, and what it acquires of that
letter_lines         the connections by which dead letters go to a leader, and turns on each
letter_producer      dead letters go to the leader of their partition
dead_letter_queue    the dead letters of share-partitions, written exactly once
delayed_share_fetches  the share fetches that wait until there is more, or until their time is over
share_partition_manager  all share-partitions of this node, and the sessions
share_views          what share-partitions have in flight, wherever in the cluster they are led
"""
