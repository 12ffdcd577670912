# SPDX-License-Identifier: Apache-2.0
"""--timeline, read by another parser: streams without overlaps, arrows with both ends, sums of the table.

usage: timeline_test.py MOESIM
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]
STEPS = ["compare", "scenarios/quickstart.yaml", "--topology", "h100-rail", "--policy", "hiermoe-hd,llep", "--steps", "0:2"]
ITERATION = ["compare", "scenarios/iteration.yaml", "--policy", "alltoall", "--routing", "recorded", "--global-batch", "16",
             "--warmup", "0", "--steps", "0"]


def picoseconds(microseconds):
    return round(microseconds * 1e6)


class Timeline:
    """The events of a file by kind."""

    def __init__(self, path):
        document = json.loads(path.read_text(encoding="utf-8"))
        self.shown = document["otherData"]["shown"]
        self.by_kind = collections.defaultdict(list)
        for event in document["traceEvents"]:
            self.by_kind[event["ph"]].append(event)
        self.threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.by_kind["M"]
                        if e["name"] == "thread_name"}
        self.processes = {e["pid"]: e["args"]["name"] for e in self.by_kind["M"] if e["name"] == "process_name"}
        self.slices = collections.defaultdict(list)
        for e in self.by_kind["X"]:
            begin = picoseconds(e["ts"])
            self.slices[e["pid"], e["tid"]].append((begin, begin + picoseconds(e["dur"]), e))

    def clusters(self):
        return [pid for pid, name in self.processes.items() if name.endswith("the whole cluster")]


class TimelineTest(unittest.TestCase):
    moesim = ""

    def write(self, command, *flags):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            done = subprocess.run([self.moesim, *command, "--timeline", folder / "t.json", "--json", folder / "r.json", *flags],
                                  cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(p.name for p in folder.iterdir()), ["r.json", "t.json"])
            timeline = Timeline(folder / "t.json")
            self.assertIn(timeline.shown, done.stderr)
            return timeline, json.loads((folder / "r.json").read_text(encoding="utf-8"))["cases"]

    def check_form(self, timeline):
        for thread, slices in timeline.slices.items():
            self.assertIn(thread, timeline.threads)
            self.assertIn(thread[0], timeline.processes)
            slices.sort(key=lambda s: s[:2])
            for (_, end, first), (begin, _, second) in zip(slices, slices[1:]):
                self.assertLessEqual(end, begin, f"{thread}: {first} and {second}")
        ends = {e["id"]: e for e in timeline.by_kind["f"]}
        starts = timeline.by_kind["s"]
        self.assertEqual(len(ends), len(timeline.by_kind["f"]))
        self.assertEqual(sorted(e["id"] for e in starts), sorted(ends))
        self.assertGreater(len(starts), 0)
        for start in starts:
            end = ends[start["id"]]
            self.assertNotEqual(start["pid"], end["pid"])
            self.assertLessEqual(start["ts"], end["ts"])
            for e in (start, end):
                self.assertTrue(self.slice_at(timeline, e), e)

    def slice_at(self, timeline, arrow):
        """The slice that holds an end of an arrow."""
        when = picoseconds(arrow["ts"])
        return [e for begin, end, e in timeline.slices[arrow["pid"], arrow["tid"]]
                if begin <= when < end and e["name"] == arrow["name"]]

    def loads(self, timeline, cluster):
        """Bytes by link class: the counter's values times how long each holds."""
        series = collections.defaultdict(list)
        for e in timeline.by_kind["C"]:
            if e["pid"] == cluster and e["name"].endswith("links [B/s]"):
                series[e["name"].split()[0]].append((e["ts"], e["args"]["all links"]))
        return {name: sum(rate * (after - at) * 1e-6 for (at, rate), (after, _) in zip(points, points[1:]))
                for name, points in series.items()}

    def test_steps_add_up_to_the_table(self):
        timeline, cases = self.write(STEPS, "--timeline-ranks", "all", "--timeline-steps", "2")
        self.check_form(timeline)
        self.assertEqual(len(timeline.clusters()), len(cases))
        gpus = cases[0]["gpus"]
        for index, (case, cluster) in enumerate(zip(cases, timeline.clusters())):
            with self.subTest(policy=case["policy"]):
                ranks = range(cluster - gpus, cluster)
                steps = [(end - begin) * 1e-12 for begin, end, _ in timeline.slices[cluster, 0]]
                for drawn, step in zip(steps, case["step_s_each"], strict=True):
                    self.assertAlmostEqual(drawn, step, delta=2e-11)
                compute = sum((end - begin) * 1e-12 for (pid, tid), slices in timeline.slices.items()
                              if pid in ranks and timeline.threads[pid, tid] == "compute" for begin, end, _ in slices)
                self.assertAlmostEqual(compute / gpus / len(steps) / case["total"]["compute_s"], 1, places=6)
                sent = sum(e["args"].get("to_other_hosts_bytes", 0) for e in timeline.by_kind["X"] if e["pid"] in ranks)
                total = case["total"]
                self.assertEqual(sent, total["traffic"]["other_host_bytes"] + total["parameter_traffic"]["other_host_bytes"])
                moved = self.loads(timeline, cluster)
                for name in total["traffic"]["link_class_bytes"]:
                    both = sum(total[t]["link_class_bytes"].get(name, 0) for t in ("traffic", "parameter_traffic"))
                    self.assertAlmostEqual(moved.get(name, 0) / max(1, both), 1 if both else 0, places=4)
                self.assertEqual(index * (gpus + 1), cluster - gpus)

    def test_counters_know_every_expert_row(self):
        timeline, _ = self.write([*STEPS[:4], "--policy", "alltoall", "--steps", "0", "--layers", "recorded"],
                                 "--timeline-ranks", "all")
        rows = sum(sum(e["args"].values()) for e in timeline.by_kind["C"] if e["name"] == "tokens per expert")
        self.assertEqual(rows, 32 * 2048 * 4 * 4)  # ranks x tokens x top-4 x layers

    def test_an_iteration_has_a_rank_of_every_stage(self):
        timeline, cases = self.write(ITERATION)
        self.check_form(timeline)
        ranks = [pid for pid in timeline.processes if pid < 16]
        self.assertTrue(set(range(4)) | set(range(8, 12)) <= set(ranks), ranks)
        [(begin, end, _)] = timeline.slices[16, 0]
        self.assertAlmostEqual((end - begin) * 1e-12, cases[0]["step_s"], places=9)
        self.assertTrue(any(timeline.threads[e["pid"], e["tid"]].startswith("pp") for e in timeline.by_kind["s"]))
        held = [sum(e["args"].values()) for e in timeline.by_kind["C"] if e["name"] == "memory [B]"]
        self.assertEqual(max(held), cases[0]["peak_memory"]["bytes"])

    def test_charts_of_reports_show_the_same_spans(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            subprocess.run([self.moesim, "run", *STEPS[1:4], "--policy", "llep", "--steps", "0", "--layers", "recorded", "--pictures",
                            "--timeline", folder / "t.json", "--timeline-ranks", "all", "--json", folder / "r.json"],
                           cwd=ROOT, capture_output=True, check=True)
            timeline = Timeline(folder / "t.json")
            [case] = json.loads((folder / "r.json").read_text(encoding="utf-8"))["cases"]
        streams = {(pid, name): timeline.slices[pid, tid] for (pid, tid), name in timeline.threads.items()}
        [gantt] = case["pictures"]["gantts"]
        self.assertFalse(gantt["folded"])
        self.assertGreater(len(gantt["lanes"]), 3)
        for lane in gantt["lanes"]:
            slices = [s for s in streams[lane["gpu"], lane["stream"]] if s[1] > s[0]]
            self.assertEqual(len(slices), len(lane["bars"]))
            for (begin, end, e), (start, waiting, length, kind, *_) in zip(slices, lane["bars"]):
                self.assertEqual(e["name"], gantt["kinds"][kind][0])
                for shown, drawn in ((begin, start), (end - begin, length), (e["args"].get("waiting_us", 0) * 1e6, waiting)):
                    self.assertAlmostEqual(shown / 1000, drawn, delta=1)  # nanoseconds

    def test_wrong_ranks_are_an_error(self):
        for ranks, said in (("0-99", "there is no rank 99"), ("a", "'a' names no ranks"), ("5-3", "names no ranks")):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([self.moesim, *STEPS, "--timeline", f"{folder}/t.json", "--timeline-ranks", ranks], cwd=ROOT,
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)
                self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


if __name__ == "__main__":
    TimelineTest.moesim = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
