#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts ranks that meet over TCP on this host, and breaks them.

usage: tcp_test.py JOB_RANKS secrets|no-secrets [Meet|Refuse|Fault]
"""
import contextlib
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from ranks import free_port, HAS_SECRETS, own_address, Rank, received, SECRET, Tcp


class Meet(Tcp):
    def test_all_calls_with_1_to_8_ranks(self):
        for ranks in (1, 2, 3, 8):
            with self.subTest(ranks=ranks):
                self.port = free_port()
                self.finishes(self.job(ranks, "exchange 1000"))

    def test_large_and_empty_messages(self):
        for size in (0, 64 << 20):
            with self.subTest(bytes=size):
                self.port = free_port()
                self.finishes(self.job(3, f"exchange {size}"))

    def test_any_order(self):
        late = [self.start(rank, 4, "exchange 10") for rank in (3, 1, 2)]
        with self.assertRaises(subprocess.TimeoutExpired):
            late[0].process.wait(1)  # waits for rank 0
        self.finishes([*late, self.start(0, 4, "exchange 10")])

    def test_names_resolve(self):
        self.finishes(self.job(2, "exchange 10", MASTER_ADDR="localhost"))

    def test_slurm_without_mpi(self):
        ranks = [Rank("exchange", "10", SLURM_PROCID=rank, SLURM_NTASKS=3, SLURM_NNODES=1,
                      SLURM_JOB_ID=7, SLURM_STEP_ID=1, SLURM_JOB_NODELIST="n[1-2]",
                      MASTER_PORT=self.port) for rank in range(3)]
        self.all += ranks
        self.finishes(ranks)

    def test_local_ranks(self):
        told = [self.start(rank, 2, "local 0", LOCAL_RANK=5 - rank) for rank in range(2)]
        for rank, local in zip(told, (5, 4)):
            self.finishes([rank], f"is local {local}")
        self.port = free_port()
        for number, rank in enumerate(self.job(3, "local 0")):  # by host name
            self.finishes([rank], f"is local {number}")

    def test_strangers_do_not_stop_the_others(self):
        first = self.start(0, 2, "exchange 10")
        with socket.socket() as stranger:
            while stranger.connect_ex(("127.0.0.1", self.port)) != 0:
                self.assertIsNone(first.process.poll())
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(stranger.recv(1), b"")
        self.finishes([self.start(1, 2, "exchange 10")])
        self.assertEqual(first.end(), 0, first.err)
        self.assertRegex(first.err, r"refused 127.0.0.1:\d+: it is not moesim-hw")

    def connected(self, first, count):
        """Connections to rank 0, which listens or soon will."""
        all_of_them = []
        while len(all_of_them) < count:
            one = socket.socket()
            self.addCleanup(one.close)
            while one.connect_ex(("127.0.0.1", self.port)) != 0:
                self.assertIsNone(first.process.poll())
            all_of_them.append(one)
        return all_of_them

    def test_silent_strangers_delay_nobody(self):
        for strangers in (8, 700):  # and more than are heard at once
            with self.subTest(strangers=strangers):
                self.port = free_port()
                first = self.start(0, 2, "exchange 10", "--join-timeout", "100")
                silent = self.connected(first, strangers)
                silent[-1].sendall(b"moesimhw")  # half a greeting
                began = time.monotonic()
                self.finishes([self.start(1, 2, "exchange 10")])
                self.assertLess(time.monotonic() - began, 4)  # each is waited for 5 s
                self.assertEqual(first.end(), 0, first.err)
                self.assertLessEqual(first.err.count("\n"), 8)

    def test_a_slow_stranger_is_given_up(self):
        first = self.start(0, 2, "exchange 10", "--join-timeout", "100")
        [slow] = self.connected(first, 1)
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for byte in b"moesimhw" + struct.pack("=I", 1) + bytes(30):  # one a time never ends
                slow.sendall(bytes([byte]))
                time.sleep(0.2)
                if slow in select.select([slow], [], [], 0)[0]:
                    break
        self.assertLess(time.monotonic() - began, 7.5)
        self.finishes([self.start(1, 2, "exchange 10")])
        self.assertEqual(first.end(), 0, first.err)
        self.assertRegex(first.err, r"refused 127.0.0.1:\d+: it did not end its greeting in time")

    def test_another_version_is_refused(self):
        first = self.start(0, 2, "exchange 10", "--join-timeout", "5")
        with socket.socket() as other:
            while other.connect_ex(("127.0.0.1", self.port)) != 0:
                self.assertIsNone(first.process.poll())
            other.sendall(b"moesimhw" + struct.pack("=I", 77) + bytes(40))
            self.assertEqual(other.recv(12), b"moesimhw" + struct.pack("=I", 1))
        self.fails(first, 1, "it speaks version 77 of the rendezvous, rank 0 1")

    @unittest.skipUnless(HAS_SECRETS, "built without libcrypto")
    def test_secret_by_variable_and_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "secret"
            path.touch(0o600)
            path.write_text(SECRET + "\n")
            first = self.start(0, 2, "exchange 10", MOESIM_SECRET=SECRET)
            other = self.start(1, 2, "exchange 10", MOESIM_SECRET_FILE=path)
            self.finishes([first, other])

    @unittest.skipUnless(HAS_SECRETS, "built without libcrypto")
    def test_secret_opens_other_addresses(self):
        address = own_address()
        if address is None:
            self.skipTest("no address but loopback")
        self.finishes(self.job(2, "exchange 10", MASTER_ADDR=address, MOESIM_SECRET=SECRET))


class Refuse(Tcp):
    def test_no_secret_beyond_loopback(self):
        address = own_address()
        if address is None:
            self.skipTest("no address but loopback")
        for rank in self.job(2, "exchange 10", MASTER_ADDR=address):
            self.fails(rank, 2, "is not a loopback address, so it needs a secret")

    @unittest.skipUnless(HAS_SECRETS, "built without libcrypto")
    def test_wrong_secret(self):
        for secrets in ((SECRET, SECRET[::-1]), (SECRET, None), (None, SECRET)):
            with self.subTest(secrets=secrets):
                self.port = free_port()
                first, other = [self.start(rank, 2, "exchange 10", "--join-timeout", "4",
                                           MOESIM_SECRET=secret)
                                for rank, secret in enumerate(secrets)]
                self.fails(other, 2, "rank 0 at .* has another secret than this rank 1")
                self.fails(first, 1, r"rank 1 did not come to rank 0 .*; refused rank 1 at .*: "
                                     r"another secret than rank 0's")

    def test_other_world_size(self):
        ranks = [self.start(0, 3, "exchange 10"), self.start(1, 2, "exchange 10")]
        for rank in ranks:
            self.fails(rank, 2, "rank 1 at .* was started as one of 2 ranks, rank 0 as one of 3")

    def test_rank_given_twice(self):
        ranks = [self.start(rank, 3, "exchange 10") for rank in (0, 1, 1)]
        for rank in ranks:
            self.fails(rank, 2, "two processes say to be rank 1")

    def test_missing_rank(self):
        ranks = [self.start(rank, 4, "exchange 10", "--join-timeout", "5") for rank in (0, 1)]
        for rank in ranks:
            self.fails(rank, 1, r"ranks 2, 3 did not come to rank 0 at 127.0.0.1:\d+ within 5 s")

    def test_nobody_listens(self):
        self.fails(self.start(1, 2, "exchange 10", "--join-timeout", "2"), 1,
                   r"rank 1 did not reach rank 0 at 127.0.0.1:\d+ within 2 s: .*Connection refused")

    def test_somebody_else_listens(self):
        with socket.create_server(("127.0.0.1", self.port)) as server:
            self.fails(self.start(0, 2, "exchange 10"), 2, "the port is in use")
            for greeting, message in (
                    (b"SSH-2.0-something\r\n", "what listens at .* is not moesim-hw"),
                    (b"moesimhw" + struct.pack("=I", 77), "rank 0 speaks version 77 of the rendezvous")):
                with self.subTest(greeting=greeting):
                    other = self.start(1, 2, "exchange 10")
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(greeting)
                        self.fails(other, 1, message)

    def test_many_strangers_are_counted(self):
        first = self.start(0, 2, "exchange 10", "--join-timeout", "3")
        for _ in range(20):
            with socket.socket() as stranger:
                while stranger.connect_ex(("127.0.0.1", self.port)) != 0:
                    self.assertIsNone(first.process.poll())
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
        self.fails(first, 1, r"rank 1 did not come to rank 0 .*; refused 12 more")
        self.assertEqual(first.err.count("moesim-hw: refused"), 8)

    def test_verdict_of_any_length(self):
        with socket.create_server(("127.0.0.1", self.port)) as server:
            other = self.start(1, 2, "exchange 10")
            connection, _ = server.accept()
            with connection:
                received(connection, 52)
                connection.sendall(b"moesimhw" + struct.pack("=I", 1) + bytes(32) + bytes(32))
                received(connection, 32)
                connection.sendall(struct.pack("=iI", 1, 2 ** 32 - 1) + b"no room" + bytes(4089))
                self.fails(other, 1, "no room")

    def test_rank_0_dies_before_all_have_come(self):
        first = self.start(0, 3, "exchange 10")
        other = self.start(1, 3, "exchange 10", "--join-timeout", "20")
        with socket.socket() as probe:  # rank 0 takes one after the other: rank 1 has joined or soon will
            while probe.connect_ex(("127.0.0.1", self.port)) != 0:
                self.assertIsNone(first.process.poll())
        first.process.kill()
        self.fails(other, 1, r"rank 1.* rank 0 at 127.0.0.1:\d+")

    def test_foreign_address(self):
        self.fails(self.start(0, 2, "exchange 10", MASTER_ADDR="198.51.100.7",
                              MOESIM_SECRET=SECRET if HAS_SECRETS else None), 2,
                   "no address of this host" if HAS_SECRETS else "needs a secret")

    def test_bad_variables_and_flags(self):
        self.fails(self.start(0, 2, "exchange 10", MASTER_PORT="many"), 2, "MASTER_PORT=many")
        self.fails(self.start(0, 2, "exchange 10", "--launcher", "tpc"), 2, "did you mean 'tcp'")


class Fault(Tcp):
    def killed(self, action, lost, sign=signal.SIGKILL):
        """The other ranks of a job of four if `lost` is killed."""
        ranks = self.job(4, f"{action} {lost}")
        self.waiting(ranks)
        ranks[lost].process.send_signal(sign)
        return [rank for number, rank in enumerate(ranks) if number != lost]

    def test_killed_in_a_gather(self):
        for rank in self.killed("gather", 3):
            self.fails(rank, 1, r"rank \d, (gather|broadcast): rank 3 is gone: ")

    def test_rank_0_killed(self):
        for rank in self.killed("gather", 0):
            self.fails(rank, 1, r"rank \d, (gather|broadcast): rank 0 is gone: ")

    def test_killed_while_others_poll(self):
        for rank in self.killed("poll", 2):
            self.fails(rank, 1, "rank 2 is gone: ")

    def test_killed_while_others_heed_nothing(self):
        for rank in self.killed("sleep", 1):
            self.fails(rank, 1, r"rank \d: rank 1 is gone: ")

    def test_stopped_rank_is_silent(self):
        for rank in self.killed("gather", 2, signal.SIGSTOP):
            self.fails(rank, 1, "rank 2 is gone: nothing was heard of it for ")

    def test_abort_ends_all_with_its_code(self):
        ranks = self.job(4, "abort 7")
        for number, rank in enumerate(ranks):
            self.fails(rank, 7, "^$" if number == 1 else r"rank \d, barrier: rank 1 has ended the run")

    def test_what_fails_on_one_rank_ends_all(self):
        ranks = self.job(3, "throw 2")
        for number, rank in enumerate(ranks):
            self.fails(rank, 1, "rank threw" if number == 2 else "rank 2 has ended the run")

    def test_frames_that_do_not_fit(self):
        for kind, size, message in ((0, 2 ** 62, f"it announced {2 ** 62} bytes where 4294967296 fit"),
                                    (2, 1 << 20, "it announced 1048576 bytes where 65536 fit"),
                                    (1, 1, "it announced 1 bytes where 0 fit"),
                                    (9, 0, "it sent a frame of unknown kind 9")):
            with self.subTest(kind=kind, size=size):
                self.port = free_port()
                first = self.start(0, 2, "exchange 10")
                with socket.socket() as liar:  # who needs no secret on this host
                    while liar.connect_ex(("127.0.0.1", self.port)) != 0:
                        self.assertIsNone(first.process.poll())
                    liar.sendall(b"moesimhw" + struct.pack("=III", 1, 1, 2) + bytes(32))
                    received(liar, 44 + 32)
                    liar.sendall(bytes(32))
                    received(liar, 16)  # it has joined, and all have come
                    liar.sendall(struct.pack("=IiQ", kind, 0, size))
                    self.fails(first, 1, f"rank 1 is gone: {message}")

    def test_rank_that_leaves_early(self):
        ranks = self.job(3, "leave 1")
        self.assertEqual(ranks[1].end(), 0, ranks[1].err)
        self.fails(ranks[0], 1, "rank 0, barrier: rank 1 has left the run")
        self.fails(ranks[2], 1, "rank 0 has ended the run")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
