"""A client of redis-py's Lock."""
import sys

import redis
from driver import run

client = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]))
held = {}


def acquire(name, millis, sleep=0.1):
    lock = client.lock(name, timeout=int(millis) / 1000 or None, sleep=sleep)
    assert lock.acquire()
    held[name] = lock
    return "got"


def release(name):
    try:
        held.pop(name).release()
        return "released"
    except redis.exceptions.LockError:
        return "lost"


run(acquire, release, lambda name, millis: acquire(name, millis, sleep=0.01))
