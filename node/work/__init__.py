"""ottla.node.work: work that would hold up the loop: in turns, or beside it. Bottom-up:

pause           a pause that ends early when somebody has news
task_executor   tasks of groups, in a few threads of their own and in turns
fair_pool       threads for one kind of work that a client may make long, shared fairly by CPU time
large_requests  how much memory requests with very many elements have together while they are served
opened_batches  how much memory batches have that were compressed anew, until they are appended
turns           requests with very many elements give way to others
each_leader     what the leaders of partitions know, asked at once, as far as they answer in time
"""
