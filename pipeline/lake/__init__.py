"""lake: directories of Parquet files that grow by whole batches, each seen once and at one moment.

The map, bottom-up:

manifest            what a batch has, and whose a directory is: JSON, checked when it is read
directory           a directory of batches: staged beside it, seen by one rename (door)
sink                a stream into such a directory, exactly once
load_options        what a load reads, and how it lays it out
load_plan           the steps of a load: from where the last one ended to the ends that were asked for
load                topics into such a directory, step by step, with their offsets
"""
