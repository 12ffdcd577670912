# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces of plans, read by Google's protobuf: what every exchange moves is what the plan says.

usage: chakra_test.py MOESIM          needs python3-protobuf; skipped without it
"""
import collections
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    print("skipped: no Python package google.protobuf")
    sys.exit(77)

ROOT = pathlib.Path(__file__).parents[2]
FLAGS = ["--topology", "h100-rail", "--set", "topology.nodes=2", "--model", "gpt-oss-20b", "--trace", "traces/tiny-moe-train",
         "--layers", "0,1", "--tokens-per-rank", "256"]
COMP, SEND, RECV = 4, 5, 6


def message_classes():
    """GlobalMetadata and Node of the schema's fields that are read here (mlcommons/chakra, schema/protobuf/et_def.proto)."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="chakra", syntax="proto3")

    def add(name, fields, alternatives=()):
        message = file.message_type.add(name=name)
        for label, number, kind in fields:
            repeated = label.endswith("*")
            entry = message.field.add(name=label.rstrip("*"), number=number,
                                      label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL)
            if isinstance(kind, str):
                entry.type, entry.type_name = field.TYPE_MESSAGE, f".chakra.{kind}"
            else:
                entry.type = kind
            if entry.name in alternatives:
                entry.oneof_index = 0
        if alternatives:
            message.oneof_decl.add(name="value")

    values = [("int32_val", 7, field.TYPE_INT32), ("int64_val", 9, field.TYPE_INT64), ("bool_val", 27, field.TYPE_BOOL),
              ("string_val", 29, field.TYPE_STRING)]
    add("AttributeProto", [("name", 1, field.TYPE_STRING), *values], [name for name, _, _ in values])
    add("GlobalMetadata", [("version", 1, field.TYPE_STRING), ("attr*", 2, "AttributeProto")])
    add("Node", [("id", 1, field.TYPE_UINT64), ("name", 2, field.TYPE_STRING), ("type", 3, field.TYPE_INT32),
                 ("ctrl_deps*", 4, field.TYPE_UINT64), ("data_deps*", 5, field.TYPE_UINT64),
                 ("duration_micros", 7, field.TYPE_UINT64), ("attr*", 10, "AttributeProto")])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(f"chakra.{name}"))
            for name in ("GlobalMetadata", "Node")]


def messages(data, kinds):
    """Every message of a file, each after its length; `kinds` are their classes in order."""
    at = 0
    for kind in kinds:
        if at == len(data):
            return
        size = shift = 0
        while True:
            byte, at = data[at], at + 1
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        message = kind()
        assert message.ParseFromString(data[at:at + size]) == size and at + size <= len(data)
        assert not message.UnknownFields()
        yield message
        at += size


def attributes(message):
    return {attribute.name: getattr(attribute, attribute.WhichOneof("value")) for attribute in message.attr}


def exchanges(plan):
    """{op: {(from, to): bytes}} of a plan's text, without what stays on a GPU."""
    found, op = {}, None
    for line in plan.splitlines():
        if head := re.match(r"op (\d+) .* exchange .* unit (\d+)( .*)?$", line):
            op, unit, turned = int(head[1]), int(head[2]), "transposed" in (head[3] or "").split()
            found[op] = {}
        elif row := re.match(r"  (\d+) -> (.*)$", line):
            for to, units in re.findall(r"(\d+):(\d+)", row[2]):
                # the text says where bytes go, transposed or not
                if row[1] != to and int(units):
                    found[op][int(row[1]), int(to)] = int(units) * unit
        elif not line.startswith("  "):
            op = None
    return found


class Chakra(unittest.TestCase):
    def moesim(self, *words):
        done = subprocess.run([MOESIM, *words], cwd=ROOT, capture_output=True, text=True, check=False,
                              env=os.environ | {"MOESIM_DATA": str(ROOT)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def nodes(self, *words):
        """Of every rank."""
        metadata, node = message_classes()
        with tempfile.TemporaryDirectory() as folder:
            self.moesim("export", "chakra", *words, "-o", f"{folder}/step")
            self.assertEqual(len(os.listdir(folder)), 16)
            ranks = []
            for rank in range(16):
                data = (pathlib.Path(folder) / f"step.{rank}.et").read_bytes()
                head, *nodes = messages(data, itertools.chain([metadata], itertools.repeat(node)))
                self.assertEqual(head.version, "0.0.4")
                ranks.append(nodes)
        return ranks

    def export(self, *words):
        """The nodes of every rank, and the plan's text."""
        return self.nodes(*FLAGS, *words), self.moesim("plan", *FLAGS, *words)

    def test_every_exchange_moves_the_plans_bytes(self):
        for policy in ("alltoall", "deepep-normal", "hiermoe"):
            with self.subTest(policy):
                ranks, plan = self.export("--policy", policy, "--pass", "forward+backward")
                sent, received = collections.defaultdict(dict), collections.defaultdict(dict)
                for rank, nodes in enumerate(ranks):
                    for node in nodes:
                        if node.type in (SEND, RECV):
                            said = attributes(node)
                            self.assertEqual(said["comm_src" if node.type == SEND else "comm_dst"], rank)
                            pair, into = (said["comm_src"], said["comm_dst"]), sent if node.type == SEND else received
                            self.assertNotIn(pair, into[said["comm_tag"]])
                            into[said["comm_tag"]][pair] = said["comm_size"]
                planned = {op: moves for op, moves in exchanges(plan).items() if moves}
                self.assertGreater(len(planned), 3)
                self.assertEqual(sent, planned)
                self.assertEqual(received, planned)

    def test_ranks_can_be_replayed_to_their_end(self):
        """Nodes end once what they depend on has, receives once their send has been issued; kernels in whole us."""
        ranks, _ = self.export("--policy", "alltoall")
        ended, issued = [set() for _ in ranks], set()
        while any(len(done) < len(nodes) for done, nodes in zip(ended, ranks)):
            before = sum(map(len, ended))
            for done, nodes in zip(ended, ranks):
                for node in nodes:
                    said = attributes(node)
                    key = tuple(said.get(name) for name in ("comm_src", "comm_dst", "comm_tag"))
                    if node.id in done or not done.issuperset(node.data_deps) or (node.type == RECV and key not in issued):
                        continue
                    done.add(node.id)
                    if node.type == SEND:
                        issued.add(key)
            self.assertGreater(sum(map(len, ended)), before, "deadlock")
        for nodes in ranks:
            self.assertEqual([node.id for node in nodes], list(range(len(nodes))))
            self.assertTrue(all(dep < node.id for node in nodes for dep in node.data_deps))

    def test_an_iteration_moves_as_much_as_in_goal(self):
        words = ["scenarios/iteration.yaml", "--policy", "alltoall", "--routing", "recorded", "--set", "batch.global=16"]
        ranks = self.nodes(*words)
        goal = self.moesim("export", "goal", *words).split("rank ")[1:]
        messages = [collections.Counter(attributes(node)["comm_size"] for nodes in ranks for node in nodes if node.type == kind)
                    for kind in (SEND, RECV)]
        self.assertEqual(messages[0], messages[1])
        sent = collections.Counter(int(size) for schedule in goal for size in re.findall(r": send (\d+)b", schedule))
        self.assertEqual(messages[0], sent)
        self.assertGreater(sum(sent.values()), 1000)

    def test_kernels_take_as_long_as_in_goal(self):
        words = ["--policy", "alltoall", "--pass", "forward+backward"]
        ranks, _ = self.export(*words)
        goal = self.moesim("export", "goal", *FLAGS, *words).split("rank ")[1:]
        for nodes, schedule in zip(ranks, goal, strict=True):
            kernels = [node for node in nodes if node.type == COMP and not attributes(node)["is_cpu_op"]]
            exact = sum(int(ns) for ns in re.findall(r"calc (\d+)", schedule)) / 1000
            self.assertGreater(exact, 100)
            self.assertAlmostEqual(sum(node.duration_micros for node in kernels), exact, delta=0.6)  # one stream, +- half a us
            self.assertTrue(all(attributes(node)["tensor_size"] > 0 for node in kernels))
            self.assertGreater(sum(attributes(node)["num_ops"] for node in kernels), 1e9)


if __name__ == "__main__":
    MOESIM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
