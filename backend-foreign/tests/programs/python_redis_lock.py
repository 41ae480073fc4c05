"""A client of python-redis-lock."""
import sys

import redis
import redis_lock
from driver import run

client = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]), socket_timeout=None)
held = {}


def acquire(name, millis):
    # It takes whole seconds.
    lock = redis_lock.Lock(client, name, expire=-(-int(millis) // 1000) or None)
    assert lock.acquire()
    held[name] = lock
    return "got"


def release(name):
    try:
        held.pop(name).release()
        return "released"
    except redis_lock.NotAcquired:
        return "lost"


run(acquire, release)
