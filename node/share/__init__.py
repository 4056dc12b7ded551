"""ottla.node.share: the partitions that this node leads, as share groups read them (KIP-932). Bottom-up:

record_state         the states of a record in flight, and the table of their moves
repeated_line        logs an error that may come again and again, once a minute
share_words          the settings of a share-partition, the arguments and results of its operations
in_flight_records    the states of the records in flight, by ranges of offsets, in arrays
delayed_index        an index of the records that are not due yet, by offset and by time
acquisition_locks    finds the next lock or wait of a share-partition that ends
share_window         the records in flight between a start and an end offset, and the moves of both offsets
delayed_delivery     keeps records in the window until they are due
acquire_records      gives the records of a fetch to a member
acknowledge_records  applies the acknowledgements of records by the member that holds them
release_records      frees records after a session, a lock or a wait has ended
dead_letters         the batch of dead letters in flight, and its note in the state
set_aside            records that wait for their dead letters
window_view          summarizes the records in flight: sums by state, and the most important ranges
share_partition      one partition as one share group reads it
share_sessions       the partitions that a member reads from this node, named once
share_group_settings  the settings of a share group at the leaders of partitions
initial_offset       finds the start offset of a group that has not read a partition
read_batches         reads the headers of the batches in a slice of the log
read_delays          finds the times at which the records of these batches are due
share_timers         a timer for each share-partition, by two clocks
dead_letter_topic    finds the topic and partition of dead letters, by the rules of KIP-1191
letter_batch         makes batches of dead letters from the records in the log
letter_order         the order in which dead letters are sent, by their partition
led_partition        a share-partition with its partition, and the fetches that wait for its records
share_fetch          a share fetch while it is served: finds, reads and acquires records
letter_lines         the connections to a leader for dead letters, and the turns on each
letter_producer      produces dead letters at the leader of their partition
dead_letter_queue    writes the dead letters of share-partitions, exactly once
delayed_share_fetches  share fetches that wait for records, up to their maximum wait
share_partition_manager  all share-partitions and share sessions of this node
share_views          collects the records in flight from the leaders of share-partitions
"""
