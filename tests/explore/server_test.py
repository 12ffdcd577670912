# SPDX-License-Identifier: Apache-2.0
"""The server of moesim explore: who may ask, what is answered, and how it ends.

usage: server_test.py MOESIM
"""
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from served import ROOT, Served

MOESIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
STEP = {"base": "quickstart", "flags": {"topology": ["h100-rail"], "policy": ["alltoall", "llep"], "steps": "0"}}
# Minutes of work, all of it cancelled.
LONG = {"base": "iteration", "flags": {"policy": ["alltoall", "llep"]}, "set": ["topology:h100-rail.nodes=256", "batch.global=16384"]}


def alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(what, patience=10):
    end = time.monotonic() + patience
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served(MOESIM).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.served.__exit__()

    def status(self, *arguments, **more):
        return self.served.ask(*arguments, **more)[0]


class WhoMayAsk(ServerTest):
    def test_nothing_without_the_token(self):
        for method, path in (("GET", "/api/choices"), ("POST", "/api/run"), ("GET", "/api/run?id=1"), ("POST", "/api/drop?set=a&path=b"),
                             ("GET", f"/api/choices?token={self.served.token}"), ("GET", "/nothing")):
            body = b"" if method == "POST" else None
            self.assertEqual(self.status(method, path, body, token=False), 401, path)
            for wrong in ("", "0" * 32, self.served.token[:-1], self.served.token + "0", self.served.token.upper() + " "):
                self.assertEqual(self.status(method, path, body, {"X-Moesim-Token": wrong}, token=False), 401, path)

    def test_the_page_needs_the_token_too(self):
        status, text, headers = self.served.ask("GET", "/", token=False)
        self.assertEqual(status, 401)
        self.assertIn("needs its token", text)
        self.assertLess(len(text), 5000)  # the door, not the page
        self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
        self.assertEqual(self.status("GET", f"/?token={self.served.token}", token=False), 200)
        self.assertEqual(self.status("GET", "/?token=" + "0" * 32, token=False), 401)
        self.assertNotIn(self.served.token, self.served.ask("GET", "/")[1])

    def test_only_by_its_own_name(self):
        for host in ("evil.example", f"evil.example:{self.served.port}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1:{self.served.port}.evil.example", ""):
            self.assertEqual(self.status("GET", "/api/choices", headers={"Host": host}), 403, host)
        self.assertIn(self.status("GET", "/api/choices", headers={"Host": None}), (400, 403))
        self.assertEqual(self.status("GET", "/api/run?id=999", headers={"Host": f"localhost:{self.served.port}"}), 404)

    def test_no_other_site(self):
        for origin in ("http://evil.example", "null", "https://127.0.0.1:%d" % self.served.port, "http://127.0.0.1:1", "http://127.0.0.1"):
            self.assertEqual(self.status("POST", "/api/run", STEP, {"Origin": origin}), 403, origin)
        for site in ("cross-site", "same-site"):
            self.assertEqual(self.status("GET", "/api/choices", headers={"Sec-Fetch-Site": site}), 403, site)
        self.assertEqual(self.status("GET", "/api/run?id=999", headers={"Origin": f"http://127.0.0.1:{self.served.port}"}), 404)
        self.assertNotIn("Access-Control-Allow-Origin", self.served.ask("OPTIONS", "/api/run")[2])

    def test_only_on_loopback(self):
        addresses = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True).stdout if shutil.which("ip") else ""
        for address in re.findall(r"inet ([\d.]+)", addresses):
            if address != "127.0.0.1":
                with self.assertRaises(OSError):
                    socket.create_connection((address, self.served.port), timeout=2).close()
        listening = [line.split()[1] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"]
        self.assertEqual([each for each in listening if each.endswith(f":{self.served.port:04X}")], [f"0100007F:{self.served.port:04X}"])


class WhatMayBeAsked(ServerTest):
    def test_methods_and_paths(self):
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
            self.assertIn(self.status(method, "/api/choices"), (400, 404, 405), method)
        for path in ("/etc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/api/", "/api/runs", "/topologies/h100-rail.yaml", "/index.html"):
            status, text, _ = self.served.ask("GET", path)
            self.assertIn(status, (400, 404), path)
            self.assertNotIn("root:", text)

    def test_bodies_are_bounded(self):
        self.assertEqual(self.status("POST", "/api/run", b"", {"Content-Length": str(5 << 20)}), 413)
        self.assertEqual(self.status("POST", "/api/drop?set=a&path=b", b"", {"Content-Length": str(65 << 20)}), 413)
        self.assertEqual(self.status("POST", "/api/run", b"", {"Content-Length": "99999999999999999999999"}), 400)
        self.assertEqual(self.status("POST", "/api/run", b"", {"Content-Length": "-1"}), 400)
        self.assertEqual(self.status("POST", "/api/run", None, {"Transfer-Encoding": "chunked"}), 400)
        self.assertEqual(self.status("POST", "/api/run", b"{}", {"Content-Encoding": "gzip"}), 400)
        self.assertEqual(self.status("POST", "/api/run"), 411)

    def test_what_is_no_request(self):
        for body in (b"", b"{", b"[]", b"null", b'{"flags": 1}', b'{"set": ["a", 1]}', b'{"kind": "delete"}', b'{"base": 3}', b'{"what": 1}', b"\xff\xfe",
                     b"[" * 100000, b'{"flags": {"": 1}}'):
            status, text, _ = self.served.ask("POST", "/api/run", body)
            self.assertEqual(status, 400, body[:40])
            self.assertTrue(json.loads(text)["error"])

    def test_files_that_were_not_given_are_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            secret = pathlib.Path(folder, "secret.yaml")
            secret.write_text("password: hunter2\n")
            link = pathlib.Path(self.served.scratch.name)
            for name in (str(secret), "/etc/passwd", f"../..{secret}"):
                for request in ({"base": name}, {**STEP, "flags": {**STEP["flags"], "topology": [name]}},
                                {**STEP, "flags": {**STEP["flags"], "model": name}}, {**STEP, "flags": {**STEP["flags"], "trace": str(folder)}},
                                {**STEP, "flags": {**STEP["flags"], "policy": [name]}}, {**STEP, "flags": {**STEP["flags"], "transport": name}},
                                {**STEP, "set": [f"topology.node.gpu={name}"]}, {**STEP, "set": [f"topology.calibration={name}"]},
                                {**STEP, "set": ["policy.placement.kind=given", f"policy.placement.file={name}"]}):
                    state = self.served.run(request)
                    self.assertEqual(state["state"], "failed", request)
                    self.assertNotIn("hunter2", json.dumps(state))
                    self.assertNotIn("root:", json.dumps(state))
            self.assertTrue(link.exists())

    def test_no_policy_runs_a_command(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = pathlib.Path(folder, "ran")
            state = self.served.run({**STEP, "set": ["policy.placement.kind=external", f"policy.placement.command=touch {mark}"]})
            self.assertEqual(state["state"], "failed")
            self.assertFalse(mark.exists())

    def test_dropped_files_stay_in_their_folder(self):
        for name, path in (("a", "../x.yaml"), ("..", "x.yaml"), ("a", "/etc/x.yaml"), ("a", ""), ("a", "b//c"), ("a", ".ssh/x"), ("a/b", "c"), ("a", "x%00.yaml"), ("a", "1/2/3/4/5")):
            self.assertEqual(self.status("POST", f"/api/drop?set={name}&path={path}", b"x"), 400, path)

    def test_fuzzed_requests(self):
        chance = random.Random(7)
        good = (f"POST /api/run HTTP/1.1\r\nHost: 127.0.0.1:{self.served.port}\r\nX-Moesim-Token: {self.served.token}\r\n"
                f"Content-Length: 2\r\n\r\n{{}}").encode()
        for _ in range(300):
            data = bytearray(good)
            for _ in range(chance.randrange(1, 12)):
                at = chance.randrange(len(data))
                what = chance.randrange(3)
                if what == 0:
                    data[at] = chance.randrange(256)
                elif what == 1:
                    del data[at:at + chance.randrange(1, 9)]
                else:
                    data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 30)))
            self.assertIsNotNone(self.served.raw(bytes(data)), data)
        self.served.raw(b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\n\r\n")
        self.served.raw(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(20000)) + b"\r\n")
        self.assertEqual(self.served.run(STEP)["state"], "done")


    def test_a_connection_has_one_request(self):
        self.assertEqual(self.served.ask("GET", "/api/choices")[2]["Connection"], "close")


class Answers(ServerTest):
    def test_the_document_is_that_of_compare(self):
        for request, flags in ((STEP, []), ({**STEP, "pictures": False}, []), ({**STEP, "set": ["topology:h100-rail.nodes=8"]}, ["--set", "topology:h100-rail.nodes=8"])):
            state = self.served.run(request)
            self.assertEqual(state["state"], "done", state)
            pictures = ["--pictures"] if request.get("pictures", True) else []
            printed = subprocess.run([MOESIM, "compare", "quickstart", "--topology", "h100-rail", "--policy", "alltoall,llep", "--steps", "0", "--intervals", *pictures,
                                      *flags, "--json", "-"], capture_output=True, check=True, text=True, cwd=ROOT, env={**os.environ, "MOESIM_DATA": str(ROOT)}).stdout
            self.assertEqual(state["document"], json.loads(printed))

    def test_the_quick_answer_is_the_analytic_one(self):
        quick = self.served.run({**STEP, "quick": True, "pictures": False})["document"]
        self.assertEqual({case["fidelity"] for case in quick["cases"]}, {"analytic"})
        balanced = self.served.run({"base": "iteration", "flags": {"policy": ["alltoall"]}, "quick": True, "pictures": False})["document"]
        self.assertEqual([case["routing"] for case in balanced["cases"]], ["balanced"])

    def test_what_sliders_begin_with(self):
        opened = self.served.run({**STEP, "set": ["topology:h100-rail.nodes=8"]})["opened"]
        self.assertEqual(opened["clusters"]["h100-rail"]["gpus"], 64)
        self.assertEqual(opened["clusters"]["h100-rail"]["keys"]["nodes"], 8)
        self.assertEqual(opened["scenario"]["tokens_per_rank"], 2048)

    def test_a_mistake_is_told_as_compare_tells_it(self):
        state = self.served.run({**STEP, "flags": {"topology": ["h100-rial"]}})
        self.assertEqual(state["failure"]["kind"], "input")
        self.assertIn("did you mean 'h100-rail'?", state["failure"]["error"])

    def test_an_explanation(self):
        state = self.served.run({**STEP, "kind": "explain", "flags": {**STEP["flags"], "policy": ["llep"]}})
        self.assertIn("what no dispatch can beat", state["document"]["text"])

    def test_choices_are_what_list_says(self):
        choices = json.loads(self.served.ask("GET", "/api/choices")[1])
        listed = json.loads(subprocess.run([MOESIM, "list", "policies", "--format", "json"], capture_output=True, text=True, check=True, cwd=ROOT).stdout)
        self.assertEqual([{k: v for k, v in each.items() if k != "knobs"} for each in choices["policies"]], listed["policies"])
        knobs = {each["policy"]: each["knobs"] for each in choices["policies"]}
        self.assertEqual((knobs["laer"], knobs["eplb"], knobs["alltoall"]), (["placement.slots"], ["placement.slots_per_gpu"], []))

    def test_a_report(self):
        document = self.served.run(STEP)["document"]
        status, text, headers = self.served.ask("POST", "/api/report", document)
        self.assertEqual(status, 200)
        self.assertIn("attachment", headers["Content-Disposition"])
        self.assertIn('"moesim-report"', text)
        self.assertEqual(self.status("POST", "/api/report", {"format": "x"}), 400)


class Drops(ServerTest):
    def drop(self, path, name):
        self.assertEqual(self.status("POST", f"/api/drop?set=s{name.split('.')[0]}&path={name}", pathlib.Path(path).read_bytes()), 200)

    def check(self, name):
        return self.served.follow(*self.served.ask("POST", f"/api/check?set=s{name.split('.')[0]}&path={name}", b"")[:2])

    def test_a_topology_that_is_then_simulated(self):
        self.drop(ROOT / "topologies/h100-rail.yaml", "mine.yaml")
        said = self.check("mine.yaml")["document"]
        self.assertEqual((said["kind"], said["gpus"]), ("topology", 32))
        state = self.served.run({**STEP, "flags": {**STEP["flags"], "topology": [said["path"]]}})
        self.assertEqual(state["document"]["cases"][0]["step_s"], self.served.run(STEP)["document"]["cases"][0]["step_s"])

    def test_a_trace(self):
        folder = ROOT / "traces/tiny-moe-train"
        for file in sorted(folder.rglob("*.*")):
            path = file.relative_to(folder.parent)
            self.assertEqual(self.status("POST", f"/api/drop?set=trace&path={path}", file.read_bytes()), 200)
        said = self.served.follow(*self.served.ask("POST", "/api/check?set=trace&path=tiny-moe-train", b"")[:2])["document"]
        self.assertEqual((said["kind"], said["experts"], said["steps"]), ("trace", 32, 20))
        state = self.served.run({**STEP, "flags": {**STEP["flags"], "trace": said["path"]}})
        self.assertEqual(state["document"]["trace"]["xxh3"], self.served.run(STEP)["document"]["trace"]["xxh3"])

    def test_others(self):
        self.drop(ROOT / "scenarios/quickstart.yaml", "scenario.yaml")
        self.assertEqual(self.check("scenario.yaml")["document"]["kind"], "scenario")
        self.drop(ROOT / "models/moe/gpt-oss-20b.yaml", "model.yaml")
        self.assertEqual(self.check("model.yaml")["document"]["kind"], "model")
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder, "result.json")
            result.write_text(json.dumps(self.served.run(STEP)["document"]))
            self.drop(result, "result.json")
            self.assertEqual(self.check("result.json")["document"]["kind"], "result")

    def test_a_wrong_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, content, said in (("bad.yaml", "nodes: many\n", "not a topology"), ("bad.json", "{", "not a result"), ("bad.exe", "MZ", "does not know such files")):
                file = pathlib.Path(folder, name)
                file.write_text(content)
                self.drop(file, name)
                state = self.check(name)
                self.assertEqual(state["state"], "failed")
                self.assertIn(said, state["failure"]["error"])
                self.assertNotIn(self.served.scratch.name, state["failure"]["error"])


class LongRuns(ServerTest):
    def headers(self, client, asked):
        return {"X-Moesim-Client": client} | ({} if asked is None else {"X-Moesim-Asked": str(asked)})

    def begin(self, client, asked=None):
        status, text, _ = self.served.ask("POST", "/api/run", LONG, self.headers(client, asked))
        self.assertEqual(status, 200, text)
        state = json.loads(text)
        self.assertIn(state["state"], ("waiting", "running"))
        return state["id"]

    def state(self, run):
        return json.loads(self.served.ask("GET", f"/api/run?id={run}&seen=99999")[1])["state"]

    def test_cancel(self):
        run = self.begin("cancels")
        began = time.monotonic()
        self.assertEqual(self.status("POST", f"/api/cancel?id={run}", b""), 200)
        self.assertTrue(until(lambda: self.state(run) == "cancelled"))
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(self.served.run(STEP)["state"], "done")

    def test_the_newest_run_of_a_client_wins(self):
        runs = [self.begin("drags") for _ in range(3)]
        state = self.served.run(STEP, "drags")
        self.assertEqual(state["state"], "done")
        self.assertEqual([self.state(run) for run in runs], ["cancelled"] * 3)

    def test_a_run_that_was_overtaken_on_its_way_replaces_nothing(self):
        newest = self.begin("overtakes", 2)
        late = json.loads(self.served.ask("POST", "/api/run", STEP, self.headers("overtakes", 1))[1])
        self.assertEqual(late["state"], "cancelled")
        self.assertIn(self.state(newest), ("waiting", "running"))
        self.assertEqual(self.served.follow(*self.served.ask("POST", "/api/run", STEP, self.headers("overtakes", 3))[:2])["state"], "done")
        self.assertEqual(self.state(newest), "cancelled")

    def test_the_server_answers_while_it_simulates(self):
        run = self.begin("waits")
        began = time.monotonic()
        self.assertEqual(self.status("GET", "/api/choices"), 200)
        self.assertLess(time.monotonic() - began, 5)
        self.served.ask("POST", f"/api/cancel?id={run}", b"")
        self.assertTrue(until(lambda: self.state(run) == "cancelled"))

    def test_many_wait_while_others_are_answered(self):
        self.status("GET", "/api/choices")  # the first time takes longer
        run = self.begin("waits")
        waiting = [socket.create_connection(("127.0.0.1", self.served.port), timeout=10) for _ in range(12)]
        for each in waiting:
            each.sendall(f"GET /api/run?id={run}&seen=99999 HTTP/1.1\r\nHost: 127.0.0.1:{self.served.port}\r\n"
                         f"X-Moesim-Token: {self.served.token}\r\n\r\n".encode())
        self.assertEqual(self.status("GET", "/api/choices"), 200)
        self.assertEqual(select.select(waiting, [], [], 0)[0], [])  # each waits for two seconds
        self.served.ask("POST", f"/api/cancel?id={run}", b"")
        for each in waiting:
            self.assertIn(b" 200 ", each.recv(100))
            each.close()

    def test_a_process_that_dies_is_replaced(self):
        run = self.begin("dies")
        children = pathlib.Path(f"/proc/{self.served.process.pid}/task/{self.served.process.pid}/children")
        if not children.exists():
            self.skipTest("this kernel does not list children")
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
        self.assertTrue(until(lambda: self.state(run) == "failed"))
        for _ in range(2):
            self.assertEqual(self.served.run(STEP)["state"], "done")
        second = self.begin("dies")
        self.served.ask("POST", f"/api/cancel?id={second}", b"")
        self.assertTrue(until(lambda: self.state(second) == "cancelled"))


class Ends(unittest.TestCase):
    def test_by_the_signal(self):
        for by in (signal.SIGINT, signal.SIGTERM):
            with Served(MOESIM) as served:
                served.run(STEP)
                self.assertEqual(served.end(by), -by)
                self.assertEqual(list(pathlib.Path(served.scratch.name).iterdir()), [])  # no dropped files stay

    def test_with_its_parent(self):
        script = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); sys.stdin.read()"
        parent = subprocess.Popen([sys.executable, "-c", script, MOESIM, "explore", "--port", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, cwd=ROOT)
        said = [parent.stdout.readline(), parent.stdout.readline()]
        server = next(int(line) for line in said if line.strip().isdigit())
        self.assertTrue(alive(server))
        parent.kill()
        parent.wait()
        parent.stdin.close()
        parent.stdout.close()
        self.assertTrue(until(lambda: not alive(server)))

    def test_a_port_that_is_taken(self):
        with Served(MOESIM) as served:
            second = subprocess.run([MOESIM, "explore", "--port", str(served.port)], capture_output=True, text=True, timeout=30)
        self.assertEqual(second.returncode, 2)
        self.assertIn(f"port {served.port} is taken", second.stderr)
        self.assertIn("--port", second.stderr)

    def test_a_scenario_that_cannot_be(self):
        wrong = subprocess.run([MOESIM, "explore", "no-such", "--port", "0"], capture_output=True, text=True, timeout=30, cwd=ROOT)
        self.assertEqual(wrong.returncode, 2)

    def test_files_of_the_command_line_may_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            mine = pathlib.Path(folder, "mine.yaml")
            mine.write_text((ROOT / "topologies/h100-rail.yaml").read_text())
            scenario = pathlib.Path(folder, "scenario.yaml")
            scenario.write_text((ROOT / "scenarios/quickstart.yaml").read_text())
            with Served(MOESIM, scenario, "--topology", mine, "--policy", "alltoall", "--steps", "0") as served:
                state = served.run({"base": "given"})
                self.assertEqual(state["state"], "done", state)
                self.assertEqual([case["topology"] for case in state["document"]["cases"]], ["mine"])
                self.assertEqual(served.run({**STEP, "base": "given"})["document"]["cases"][0]["topology"], "h100-rail")


if __name__ == "__main__":
    unittest.main()
