"""ottla.node.memory: how much memory a node may have, and what takes it. Bottom-up:

freed_objects  objects that are given back in masses, told to the collector of garbage
memory_budget  one budget of memory for all that clients can make a node hold, divided among its parts
memory_limit   how much memory this process may have
memory_uses    how much of its memory each part of a node uses
"""
