"""lake: directories of Parquet files that grow by whole batches, each of which becomes visible at once.

The map, bottom-up:

manifest            the content of a batch and the owner of a directory: JSON, checked when it is read
directory           a directory of batches: staged beside it, made visible by one rename (door)
sink                writes a stream into such a directory, exactly once
load_options        reads the options of a load: its topics, and the layout of its files
load_plan           plans the steps of a load: from the end of the last one to the ends given in options
load                loads topics into such a directory, step by step, with their offsets
"""
