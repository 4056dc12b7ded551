"""ottla.node.memory: the memory of a node: its limit, its division, its uses. Bottom-up:

freed_objects  triggers garbage collection when very many objects are freed
memory_budget  divides the memory that clients can make a node hold among its parts
memory_limit   the memory limit of this process
memory_uses    the memory that each part of a node uses
"""
