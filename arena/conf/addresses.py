"""Under which address a server on this machine is reached."""


def local_url(host: str, port: int) -> str:
    """Return the URL, without a slash at its end, for a browser here; any host is this one."""
    if host in ("0.0.0.0", "::"):  # noqa: S104  (read, not bound)
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
