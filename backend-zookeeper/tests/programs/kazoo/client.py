"""Acquires a lock of kazoo at a line of input, releases it at the next one, and so on."""

import sys

from kazoo.client import KazooClient

server, path, *patterns = sys.argv[1:]
client = KazooClient(hosts=server, timeout=40)
client.start()
lock = client.Lock(path, extra_lock_patterns=patterns)
while sys.stdin.readline():
    lock.acquire()
    print("held", flush=True)
    sys.stdin.readline()
    lock.release()
    print("released", flush=True)
