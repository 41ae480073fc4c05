"""Reads commands from stdin for a client of a library: see tests/all/clients/program.rs."""
import sys
import time


def run(acquire, release, poll=None):
    """`poll` is how `count` acquires, if that is faster."""

    def count(name, path, holds):
        done = 0
        while done < int(holds):
            (poll or acquire)(name, 20000)
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
