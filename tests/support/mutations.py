"""Runs commands of Tare on damaged copies of what they read: `python -m tests.support.mutations`.

    python -m tests.support.mutations WORK SEED COUNT JOBS

JOBS is a JSON file: a list of {"input": PATH, "commands": [[WORD, …], …]}, where "{}" among the
words is the damaged copy and "{out}" a path that is free. Ends with 0 where each command ended by
itself, without a stack trace, and with a documented exit code; prints the commands that did not.

Each command runs in a fork of this process, which has loaded all of Tare.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import sys
import traceback
from collections import Counter
from pathlib import Path

from tare.__main__ import run
from tests.support.loading import draw_elsewhere, load_all

DOCUMENTED = {0, 1, 2, 3, 4}
CPU_SECONDS = 120
SIGNS = ("Traceback (most recent call last)", "panicked at", "terminate called")
EDGES = (b"\0", b"\xff", b"-1", b"null", b"[]", b"{}", b'""', b"1e999", b"NaN",
         b"18446744073709551616", b"\xff" * 8, b"\n", b",", b"../../x")  # fmt: skip


def mutated(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 | 1:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 2:
                edge = chance.choice(EDGES)
                data[at : at + chance.choice((0, len(edge)))] = edge
            case 3:
                del data[at : at + chance.choice((1, 2, 16, 4096))]
            case 4:
                data[at:at] = data[at : at + chance.choice((1, 8, 100))]
            case _ if chance.random() < 0.3:
                del data[at:]
    return bytes(data)


def damage(source: Path, copy: Path, chance: random.Random) -> str:
    """Copies ``source`` and damages one of its files; returns which."""
    if not source.is_dir():
        copy.write_bytes(mutated(source.read_bytes(), chance))
        return source.name
    shutil.copytree(source, copy, symlinks=True)
    files = sorted(path for path in copy.rglob("*") if path.is_file() and not path.is_symlink())
    chosen = chance.choice(files)
    chosen.write_bytes(mutated(chosen.read_bytes(), chance))
    return str(chosen.relative_to(copy))


def ended(words: list[str], folder: Path, said: Path) -> int:
    """The wait status of a command that a child of this process runs."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        os.chdir(folder)
        target = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(target, stream)
        code = run(words)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        code = 99
    os._exit(code)


def main() -> int:
    work, seed, count, jobs = Path(sys.argv[1]), *map(int, sys.argv[2:4]), Path(sys.argv[4])
    listed = json.loads(jobs.read_text())
    load_all()
    draw_elsewhere()
    codes: Counter[int] = Counter()
    bad = 0
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        job = listed[number % len(listed)]
        folder = work / "now"
        folder.mkdir()
        copy = folder / Path(job["input"]).name
        where = damage(Path(job["input"]), copy, chance)
        command = chance.choice(job["commands"])
        out = str(folder / "out")
        words = [word.replace("{out}", out).replace("{}", str(copy)) for word in command]
        said = work / "said"
        status = ended(words, folder, said)
        text = said.read_text(errors="replace")
        code = os.waitstatus_to_exitcode(status)
        codes[code] += 1
        if code not in DOCUMENTED or any(sign in text for sign in SIGNS):
            bad += 1
            kept = work / f"bad-{number}"
            folder.rename(kept)
            print(f"{number}: {where} damaged: tare {' '.join(words)}: {code}\n{text[-1500:]}")
        else:
            shutil.rmtree(folder)
    print(f"{count} commands, {bad} ended badly; exit codes {dict(sorted(codes.items()))}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
