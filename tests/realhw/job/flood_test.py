#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that meet over TCP while others take the places of rank 0.

usage: flood_test.py JOB_RANKS secrets|no-secrets Flood
"""
import collections
import socket
import struct
import sys
import threading
import time
import unittest

from ranks import received, Tcp


class Flood(Tcp):
    def test_a_flood_keeps_nobody_out(self):
        first = self.start(0, 2, "exchange 10", "--join-timeout", "60")
        ended = threading.Event()

        def flood():
            held = collections.deque()
            for _ in range(20_000):  # at most, and no more than 100 at a time
                if ended.is_set():
                    break
                one = socket.socket()
                held.append(one)
                if one.connect_ex(("127.0.0.1", self.port)) != 0:
                    time.sleep(0.01)
                if len(held) > 100:
                    held.popleft().close()
            for one in held:
                one.close()

        with socket.socket() as probe:
            while probe.connect_ex(("127.0.0.1", self.port)) != 0:
                self.assertIsNone(first.process.poll())
        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            time.sleep(0.5)
            self.finishes([self.start(1, 2, "exchange 10", "--join-timeout", "60")])
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        self.assertEqual(first.end(), 0, first.err)

    def test_a_rank_that_made_room_comes_again(self):
        with socket.create_server(("127.0.0.1", self.port)) as server:
            other = self.start(1, 2, "exchange 10")
            for reply in (b"", b"moesimhw" + struct.pack("=I", 1), b"moesimhw" + struct.pack("=I", 1) + bytes(64)):
                connection, _ = server.accept()
                with connection:
                    received(connection, 52)
                    connection.sendall(reply)
            connection, _ = server.accept()
            with connection:
                received(connection, 52)
                connection.sendall(b"moesimhw" + struct.pack("=I", 1) + bytes(64))
                received(connection, 32)
                connection.sendall(struct.pack("=iI", 1, 7) + b"no room")
                self.fails(other, 1, "no room")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
