"""A server of S3 for tests: moto's, which keeps its objects in memory.

It answers one request after the other, so that its comparison and its write are one step. It writes
its port to stdout, and ends when stdin is closed.
"""

import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Quiet(WSGIRequestHandler):
    def log_request(self, *args, **kwargs):
        pass


def end_with_parent():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
app = DomainDispatcherApplication(create_backend_app)
server = make_server("127.0.0.1", 0, app, threaded=False, request_handler=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
