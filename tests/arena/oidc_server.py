"""An OpenID Connect server on this machine, which describes users as a test wants."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(person):
    """Serve discovery, tokens and the user's claims; yield the server's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(person if self.path == "/userinfo" else discovery(base))

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer({"access_token": "anything", "token_type": "Bearer"})

        def answer(self, data):
            body = json.dumps(data).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield base
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def discovery(base):
    return {
        "issuer": base,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "userinfo_endpoint": f"{base}/userinfo",
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    }
