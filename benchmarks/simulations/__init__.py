import os

# Set before NumPy is loaded: with two processes, its threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
