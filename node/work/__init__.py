"""ottla.node.work: work that would hold up the loop: in turns, or beside it. Bottom-up:

pause           pauses of periodic work: until an event, and to a time that all such work shares
task_executor   work of groups in slices, in a few threads of its own
fair_pool       threads for one kind of work that a client may make long, shared fairly by CPU time
large_requests  limits the memory of requests with very many elements while they are served
opened_batches  limits the memory of recompressed batches until they are appended
turns           splits requests with very many elements into turns of the loop
each_leader     asks all leaders of some partitions at once, with a deadline
"""
