"""The Python that runs local workers: ours, with Spark's modules as they are installed, which is compiled.

Spark leads each of its Python processes to an archive of its modules first, and Python compiles what it
imports from an archive anew in each process: 0.7 s of processor time where 0.25 s are enough. A query starts
several such processes, and one that does not answer within ten seconds fails it.
"""

import os
import shlex
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pyspark

from ottla.pipeline.spark.cached_script import cache_of, cached_script

# Spark puts its archives first, and does so twice; what stands behind them stays. It tells tasks to use one
# thread for arithmetic, but not those who plan and commit: numpy's library starts one for each core there,
# for nothing and 0.1 s of processor time.
WRAPPER = """#!/bin/sh
PYTHONPATH=${{PYTHONPATH##*/pyspark/python/lib/pyspark.zip:}}
PYTHONPATH=${{PYTHONPATH##*/pyspark/python/lib/py4j-*-src.zip:}}
OMP_NUM_THREADS=${{OMP_NUM_THREADS:-1}}
export PYTHONPATH OMP_NUM_THREADS
exec {python} "$@"
"""


def worker_python(environment: Mapping[str, str] = os.environ) -> str:
    """The program for `PYSPARK_PYTHON`: this process's own where Spark is not installed beside it."""
    installed = {Path(sysconfig.get_path(key)).resolve() for key in ("purelib", "platlib")}
    if Path(pyspark.__file__).resolve().parents[1] not in installed or os.name != "posix":
        return sys.executable
    text = WRAPPER.format(python=shlex.quote(sys.executable))
    try:
        return str(cached_script(cache_of(environment), text, prefix="python", place="bin/python"))
    except OSError:
        return sys.executable
