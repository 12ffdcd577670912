# SPDX-License-Identifier: Apache-2.0
"""A moesim explore that runs for a test, and requests to it."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts")]


class Served:
    """`with Served(MOESIM, "quickstart") as served`: any free port, another folder for what it keeps."""

    def __init__(self, moesim, *arguments):
        self.command = [moesim, "explore", *map(str, arguments), "--port", "0"]

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="moesim-explore-test-")
        surroundings = {**os.environ, "TMPDIR": self.scratch.name, "MOESIM_DATA": str(ROOT)}
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=surroundings)
        self.address = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32})", self.address)
        if not found:
            said = self.process.stderr.read()
            self.__exit__()
            raise RuntimeError(f"no address but {self.address!r}: {said}")
        self.port, self.token = int(found[1]), found[2]
        return self

    def __exit__(self, *_):
        self.end()
        self.scratch.cleanup()

    def end(self, by=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(by)
        code = self.process.wait(10)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def ask(self, method, path, body=None, headers=None, token=True):
        """(status, body, headers) of a request; a header that is None is left out."""
        sent = {"Host": f"127.0.0.1:{self.port}", **({"X-Moesim-Token": self.token} if token else {}), **(headers or {})}
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        if data is not None and "Content-Length" not in sent:
            sent["Content-Length"] = str(len(data))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders()
        try:
            if data:
                connection.send(data)
        except OSError:
            pass  # it was refused before it was read
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, dict(answer.getheaders())

    def follow(self, status, text):
        """The last state of a run."""
        assert status == 200, (status, text)
        state = json.loads(text)
        while state["state"] in ("waiting", "running"):
            status, text, _ = self.ask("GET", f"/api/run?id={state['id']}&seen={state['change']}")
            assert status == 200, (status, text)
            state = json.loads(text)
        return state

    def run(self, request, client="test"):
        status, text, _ = self.ask("POST", "/api/run", request, {"X-Moesim-Client": client})
        return self.follow(status, text)

    def raw(self, data, patience=10):
        """What comes back for some bytes; None if the connection stays silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=patience) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                got = b""
                while part := connection.recv(1 << 16):
                    got += part
                return got
            except ConnectionError:
                return b""
            except TimeoutError:
                return None
