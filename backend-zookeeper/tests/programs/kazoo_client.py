"""Adds 1 to the number in a file, each time under a lock of kazoo."""

import sys

from kazoo.client import KazooClient

server, path, file, times = sys.argv[1:]
client = KazooClient(hosts=server)
client.start()
lock = client.Lock(path, extra_lock_patterns=["-lock-"])
for _ in range(int(times)):
    with lock:
        with open(file) as number:
            before = int(number.read())
        with open(file, "w") as number:
            number.write(str(before + 1))
client.stop()
