"""A server of the standard library: each page is a table that it makes, as JSON. pages.py PORT"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROWS = 300


class Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        rows = [{"number": n, "name": f"row {n}", "square": n * n} for n in range(ROWS)]
        page = json.dumps({"path": self.path, "rows": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Pages).serve_forever()
