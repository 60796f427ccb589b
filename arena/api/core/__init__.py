"""What every endpoint of the REST API stands on; `arena.api` says how to write one.

Nothing is gathered here: the framework imports some of these modules while it is itself imported.
"""
