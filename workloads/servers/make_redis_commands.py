"""Writes commands for redis, in its wire format: strings, hashes, lists and sorted sets.

usage: make_redis_commands.py FILE COMMANDS
"""

import random
import sys
from collections.abc import Iterator


def commands(rng: random.Random, count: int) -> Iterator[list[str]]:
    for number in range(count):
        key = rng.randrange(count // 8)
        text = "x" * rng.choice([3, 10, 24, 40, 100, 300, 1000])
        kind = rng.randrange(10)
        if kind < 3:
            yield ["SET", f"string:{key}", f"{number}:{text}"]
        elif kind < 5:
            yield ["HSET", f"object:{key}", f"field{rng.randrange(20)}", f"{number}{text[:60]}"]
        elif kind == 5:
            yield ["RPUSH", f"list:{key % 500}", f"{number}{text[:100]}"]
        elif kind == 6:
            yield [
                "ZADD",
                f"set:{key % 200}",
                str(rng.randrange(1000)),
                f"member{rng.randrange(900)}",
            ]
        elif kind == 7:
            yield ["APPEND", f"string:{key}", text[:50]]
        elif kind == 8:
            yield ["GET", f"string:{key}"]
        else:
            yield ["DEL", f"string:{key}", f"object:{rng.randrange(count // 8)}"]
    yield ["DBSIZE"]


def main() -> None:
    path, count = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    with open(path, "w", encoding="ascii", newline="") as file:
        for command in commands(rng, count):
            file.write(f"*{len(command)}\r\n")
            for word in command:
                file.write(f"${len(word)}\r\n{word}\r\n")


if __name__ == "__main__":
    main()
