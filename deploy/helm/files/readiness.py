"""Asks every replica of a release whether it is ready, for helm test: readiness.py HOST PORT."""

import http.client
import socket
import ssl
import sys

host, port = sys.argv[1], int(sys.argv[2])
addresses = sorted(
    {found[4][0] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
)
context = ssl.create_default_context()
context.check_hostname = False
# The certificate is self-made unless serving.certFile names one.
context.verify_mode = ssl.CERT_NONE
failed = 0
for address in addresses:
    connection = http.client.HTTPSConnection(address, port, timeout=10, context=context)
    try:
        connection.request("GET", "/readyz?verbose")
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode(errors="replace")
    except OSError as problem:
        status, text = 0, f"no answer: {problem}"
    failed += status != 200
    print(f"{address}: {'ready' if status == 200 else 'not ready'}", text, sep="\n", flush=True)
print(f"{len(addresses) - failed} of {len(addresses)} replicas are ready")
sys.exit(failed > 0)
