# SPDX-License-Identifier: Apache-2.0
"""Ranks of JOB_RANKS that meet over TCP on this host; for tests with its command line (tcp_test.py)."""
import contextlib
import itertools
import os
import re
import socket
import subprocess
import sys
import threading
import unittest

RANKS, HAS_SECRETS = sys.argv[1], sys.argv[2] == "secrets"
SECRET = "0123456789abcdef0123456789abcdef"
LAUNCHERS = re.compile(r"OMPI_|PMI|PMIX|SLURM|MV2_|MOESIM_SECRET|TORCH|MASTER_|(LOCAL_)?RANK$|WORLD_SIZE|MPI_LOCALRANKID")
LIMIT = 120  # of a process, on any machine


# Of each class of tests, below the ports of outgoing connections: the classes may run at the same time.
PORTS = {"Meet": 20000, "Refuse": 23000, "Fault": 26000, "Flood": 29000}
CLASS = "".join(sys.argv[3:4]).partition(".")[0]
ports = itertools.count(PORTS.get(CLASS, PORTS["Meet"]) + os.getpid() % 1000)


def free_port():
    while True:
        with contextlib.suppress(OSError), socket.socket() as one:
            port = next(ports)
            one.bind(("127.0.0.1", port))
            return port


def own_address():
    """An address of this host that is not loopback, None without one."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("192.0.2.1", 9))  # sends nothing
        address = one.getsockname()[0]
        return None if address.startswith("127.") else address
    return None


def received(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return data


class Rank:
    def __init__(self, *arguments, **variables):
        env = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}
        env.update({name: str(value) for name, value in variables.items() if value is not None})
        self.process = subprocess.Popen([RANKS, *arguments], env=env, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.out, self.err, self.said = "", "", threading.Event()
        self.readers = [threading.Thread(target=self.read_out), threading.Thread(target=self.read_err)]
        for reader in self.readers:
            reader.start()

    def read_out(self):
        for line in self.process.stdout:
            self.out += line
            self.said.set()
        self.said.set()

    def read_err(self):
        self.err = self.process.stderr.read()

    def end(self):
        """The exit code, once it has ended."""
        code = self.process.wait(LIMIT)
        for reader in self.readers:
            reader.join(LIMIT)
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()
        return code


class Tcp(unittest.TestCase):
    def setUp(self):
        self.port = free_port()
        self.all = []

    def tearDown(self):
        for rank in self.all:
            rank.process.kill()
            rank.end()

    def start(self, rank, ranks, action, *arguments, **variables):
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port, **variables}
        one = Rank(*action.split(), *arguments, RANK=rank, WORLD_SIZE=ranks, **variables)
        self.all.append(one)
        return one

    def job(self, ranks, action, *arguments, **variables):
        return [self.start(rank, ranks, action, *arguments, **variables) for rank in range(ranks)]

    def finishes(self, ranks, said="has all"):
        for rank in ranks:
            self.assertEqual(rank.end(), 0, rank.err)
            self.assertEqual(rank.err, "")
            self.assertIn(said, rank.out)

    def fails(self, rank, code, message):
        self.assertEqual(rank.end(), code, rank.err)
        self.assertRegex(rank.err, message)

    def waiting(self, ranks):
        for rank in ranks:
            self.assertTrue(rank.said.wait(LIMIT))
            self.assertIn("waits", rank.out)
