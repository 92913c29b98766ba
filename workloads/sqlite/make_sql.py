"""Writes SQL that keeps, looks up and removes linked objects: an object store in a database.

usage: make_sql.py FILE OBJECTS
"""

import random
import sys


def main() -> None:
    path, objects = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    live: list[int] = []
    with open(path, "w", encoding="ascii") as file:
        file.write(
            "CREATE TABLE part(id INTEGER PRIMARY KEY, kind TEXT, x REAL, y REAL, note TEXT);\n"
            "CREATE TABLE link(source INTEGER, target INTEGER, label TEXT);\n"
            "CREATE INDEX by_source ON link(source);\n"
            "CREATE INDEX by_kind ON part(kind, x);\n"
            "BEGIN;\n"
        )
        for number in range(objects):
            note = " ".join(f"{rng.getrandbits(20):05x}" for _ in range(rng.randrange(2, 20)))
            file.write(
                f"INSERT INTO part VALUES({number},'kind{rng.randrange(20)}',"
                f"{rng.randrange(1000)},{rng.randrange(1000)},'{note}');\n"
            )
            for target in rng.sample(live, min(3, len(live))):
                file.write(f"INSERT INTO link VALUES({number},{target},'l{rng.randrange(9)}');\n")
            live.append(number)
            if rng.randrange(4) == 0:
                dead = live.pop(rng.randrange(len(live)))
                file.write(f"DELETE FROM link WHERE source={dead};\n")
                file.write(f"DELETE FROM part WHERE id={dead};\n")
            if number % 50 == 49:
                file.write(
                    "SELECT p.kind, count(*), group_concat(substr(q.note, 1, 5)) FROM part p "
                    "JOIN link ON link.source = p.id JOIN part q ON q.id = link.target "
                    f"WHERE p.kind = 'kind{rng.randrange(20)}' AND p.x < 100;\n"
                )
        file.write("COMMIT;\n")
        file.write("SELECT kind, count(*), sum(length(note)) FROM part GROUP BY kind;\n")


if __name__ == "__main__":
    main()
