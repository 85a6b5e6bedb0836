"""A monitor on loopback that notes what it is told."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

__all__ = ["Monitor"]


class Monitor:
    """``told`` has method, path and body of each request.

    Args:
        answer: Status of each answer, and further headers.
    """

    def __init__(self, answer=200, headers=()):
        self.told = []
        self.answer, self.headers = answer, dict(headers)
        self.let_go = threading.Event()
        self.let_go.set()
        monitor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                monitor.told.append((self.command, self.path, body.decode()))
                monitor.let_go.wait(20)
                self.send_response(monitor.answer)
                for name, value in monitor.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            do_POST = do_GET  # noqa: N815 - the name is the library's

            def log_message(self, *args):
                pass

            def handle(self):
                with contextlib.suppress(ConnectionError):
                    super().handle()

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}/a1b2"

    @property
    def events(self):
        """What each was about: ``start``, ``fail``, or nothing for a success."""
        return [path.removeprefix("/a1b2").removeprefix("/") for _, path, _ in self.told]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self.let_go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
