"""An S3 server for tests: moto's, which keeps its objects in memory.

It carries out one request after the other, so that the comparison and the write of a conditional
request are one step. A request is read before that: a client that is cut off stops nobody else.

`POST /-/refuse/STATUS/COUNT` makes it answer the next COUNT requests with this status, without
carrying them out. `GET /-/refuse` says how many are left.
"""

import io
import sys
import threading

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

# The part for S3 alone: moto takes longer to find it anew for each request than to carry one out.
moto = create_backend_app("s3")
one_at_a_time = threading.Lock()
refusals = []


def carry_out(environ, start_response):
    words = environ["PATH_INFO"].strip("/").split("/")
    if words[:2] == ["-", "refuse"]:
        refusals.extend(words[2:3] * int((words + ["0"] * 4)[3]))
        left = str(len(refusals)).encode()
        start_response("200 OK", [("Content-Length", str(len(left)))])
        return [left]
    if refusals:
        status = refusals.pop()
        reason = {
            "301": "PermanentRedirect",
            "429": "TooManyRequests",
            "501": "NotImplemented",
            "503": "SlowDown",
        }[status]
        start_response(f"{status} {reason}", [("Content-Type", "application/xml")])
        return [f"<Error><Code>{reason}</Code><Message>refused</Message></Error>".encode()]
    return list(moto(environ, start_response))


def serve(environ, start_response):
    length = int(environ.get("CONTENT_LENGTH") or 0)
    environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
    with one_at_a_time:
        return carry_out(environ, start_response)


class Quiet(WSGIRequestHandler):
    def log_request(self, *args, **kwargs):
        pass


run_simple("127.0.0.1", int(sys.argv[1]), serve, threaded=True, request_handler=Quiet)
