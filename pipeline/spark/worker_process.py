"""What is done once in a Python worker of Spark, which lives on from task to task."""

import gc

_settled = False


def settle() -> None:
    """Keep the garbage collector from what was imported.

    Spark's workers collect after each task, plan and commit, and walk through all of pyarrow, numpy and Spark
    each time: some 40 ms of processor time, more than a small task takes altogether.
    """
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()
