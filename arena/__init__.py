"""The lowest app: teams, prompts, candidates, answers, comparisons, votes and model calls."""

import os

__version__ = "0.2.0"

# The matrices here are small, so OpenBLAS's threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
