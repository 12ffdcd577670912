# SPDX-License-Identifier: Apache-2.0
"""Passes bytes between standard input and output and a socket, whose other end has the Python that was asked.

usage: relay.py SOCKET
"""
import os
import socket
import sys
import threading


def ask(connection):
    while asked := os.read(0, 1 << 16):
        connection.sendall(asked)
    connection.shutdown(socket.SHUT_WR)


with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    threading.Thread(target=ask, args=(connection,), daemon=True).start()
    while answered := connection.recv(1 << 16):
        sys.stdout.buffer.write(answered)
        sys.stdout.flush()
