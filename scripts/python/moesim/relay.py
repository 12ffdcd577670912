# SPDX-License-Identifier: Apache-2.0
"""Passes lines between standard input and output and a socket, whose other end has the Python that was asked.

usage: relay.py SOCKET
"""
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    with connection.makefile("rw", encoding="utf-8") as peer:
        for asked in sys.stdin:
            peer.write(asked)
            peer.flush()
            sys.stdout.write(peer.readline())
            sys.stdout.flush()
