"""One machine runs everything: broker of files, supervisor, beat inside the worker."""
