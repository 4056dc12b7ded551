"""The program of spark-submit: `python -m ottla.pipeline.jobs` is `ottla pipeline`."""

import sys

from ottla.pipeline.jobs.cli import pipeline

if __name__ == "__main__":
    sys.exit(pipeline(prog_name="ottla pipeline"))
