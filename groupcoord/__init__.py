"""groupcoord: consumer groups and their offsets, as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own:
"""
