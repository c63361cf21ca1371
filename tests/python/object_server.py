# SPDX-License-Identifier: Apache-2.0
"""A real HTTP server on loopback that holds objects, keeps a list of what it was asked, and has faults on request."""

import http.server
import threading


class Fault:
    """What happens to one request instead of, or around, its answer. ``only`` chooses requests; ``times`` bounds them."""

    def __init__(self, act, times=1, only=lambda handler: handler.command == "GET"):
        self.act, self.times, self.only = act, times, only


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # heads and bodies are two writes

    def log_message(self, *arguments):
        pass

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_HEAD(self):
        self._serve()

    def do_GET(self):
        self._serve()

    def say(self, status, headers=(), body=b"", length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def cut(self):
        """End the connection without another byte."""
        self.close_connection = True

    def _serve(self):
        server = self.server
        self.path = self.requestline.split()[1]  # as it was sent; the base class makes one slash of two
        with server.lock:
            server.requests.append((self.command, self.path, dict(self.headers.items())))
            fault = next((fault for fault in server.faults if fault.times > 0 and fault.only(self)), None)
            if fault:
                fault.times -= 1
        if server.check is not None and (refusal := server.check(self)):
            return self.say(403, body=f"<Error><Code>{refusal}</Code></Error>".encode())
        if fault:
            return fault.act(self)
        self.answer()

    def answer(self):
        server = self.server
        body = server.objects.get(server.name_of(self.path))
        if body is None:
            return self.say(404, body=b"<Error><Code>NoSuchKey</Code></Error>")
        headers = [("ETag", f'"{server.tags.get(server.name_of(self.path), 1)}"')]
        wanted = self.headers.get("If-Match")
        if wanted and wanted != headers[0][1]:
            return self.say(412)
        asked = self.headers.get("Range")
        if self.command == "HEAD" or asked is None:
            return self.say(200, headers, body)
        first, last = (int(part) for part in asked.removeprefix("bytes=").split("-"))
        if first >= len(body):
            return self.say(416, [("Content-Range", f"bytes */{len(body)}")])
        last = min(last, len(body) - 1)
        headers.append(("Content-Range", f"bytes {first}-{last}/{len(body)}"))
        if server.gate is not None:
            server.gate.wait()
        self.say(206, headers, body[first : last + 1])


class Server(http.server.ThreadingHTTPServer):
    """``with Server({"/name": b"..."}) as server``: objects by the path that a request names (``name_of`` may map it)."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, objects, name_of=lambda path: path, context=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.name_of = objects, name_of
        self.tags, self.faults, self.requests = {}, [], []
        self.connections = 0
        self.check = self.gate = None
        self.lock = threading.Lock()
        self.scheme = "https" if context else "http"
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        pass  # clients of these tests leave early

    def ranges(self):
        """The ranges that were asked for, in order."""
        with self.lock:
            return [headers["range"] for command, _, headers in self.requests if "range" in headers]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self.shutdown()
        self._thread.join()
        self.server_close()
