"""ottla.groupcoord.assignors: who shall own which partition, decided by the coordinator (KIP-848).

The map, bottom-up; a module imports only from lines above its own:

Words:

assignor_spec       what an assignor is told
range_assignor      the assignor `range`
uniform_mixed       the assignor `uniform` where subscriptions differ
uniform_assignor    the assignor `uniform`
all_assignors       the assignors of consumer groups by their names
simple_assignor     the assignor `simple` of share groups
"""
