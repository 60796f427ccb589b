"""`python arena/healthcheck.py`: exit status 0 if the web server answers `/healthz`.

The container's check. It imports nothing from Ringside, because it runs every few seconds.
"""

import http.client
import os
import sys

site = os.environ.get("ALLOWED_HOSTS", "").split(",")[0].strip(" *.") or "localhost"
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ.get("PORT", "8000")), timeout=8)
try:
    connection.request("GET", "/healthz", headers={"Host": site})
    sys.exit(connection.getresponse().status != http.HTTPStatus.OK)
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"The web server does not answer ({error}).")
