"""A client of redis-py's Lock, driven by lines on stdin: see tests/all/clients/program.rs."""
import sys
import time

import redis

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


def count(name, path, holds):
    done = 0
    while done < int(holds):
        acquire(name, 20000, sleep=0.01)
        number, last = open(path).read().split()
        if last != "theirs":
            time.sleep(0.001)
            with open(path, "w") as file:
                file.write(f"{int(number) + 1} theirs")
            done += 1
        assert release(name) == "released"
        time.sleep(0.03)
    return "counted"


for line in sys.stdin:
    word, *rest = line.split()
    print({"acquire": acquire, "release": release, "count": count}[word](*rest), flush=True)
