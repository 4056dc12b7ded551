"""ottla.groupcoord.assignors: the assignors, which distribute partitions among members (KIP-848, KIP-932).

The map, bottom-up; a module imports only from lines above its own:

Words:

assignor_spec       the input of an assignor: members, subscriptions, partitions
range_assignor      the assignor `range`
uniform_mixed       the assignor `uniform` where subscriptions differ
uniform_assignor    the assignor `uniform`
all_assignors       the assignors of consumer groups by their names
simple_assignor     the assignor `simple` of share groups
"""
