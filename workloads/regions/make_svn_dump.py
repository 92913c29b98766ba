"""Writes a dump of a Subversion repository: a project of text files that is edited for a while.

make_svn_dump.py FILE REVISIONS
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

FOLDERS = 12
FILES_A_FOLDER = 8
LINES = 60
EDITS_A_REVISION = 10
WORDS = (
    "value count first last index table entry buffer reader writer begin end left right open "
    "close state event level point range limit offset length number string field record result"
).split()


def properties(given: dict[str, str]) -> bytes:
    lines = [
        f"{kind} {len(text.encode())}\n{text}\n"
        for key, value in given.items()
        for kind, text in (("K", key), ("V", value))
    ]
    return ("".join(lines) + "PROPS-END\n").encode()


def revision(number: int, author: str, message: str) -> bytes:
    day, minute = divmod(number, 24 * 60)
    date = (
        f"2020-{1 + day // 28:02}-{1 + day % 28:02}T{minute // 60:02}:{minute % 60:02}:00.000000Z"
    )
    block = properties({"svn:log": message, "svn:author": author, "svn:date": date})
    head = f"Revision-number: {number}\nProp-content-length: {len(block)}\n"
    return f"{head}Content-length: {len(block)}\n\n".encode() + block + b"\n"


def node(path: str, kind: str, action: str, text: str | None = None) -> bytes:
    head = f"Node-path: {path}\nNode-kind: {kind}\nNode-action: {action}\n"
    block = b"" if action == "change" else properties({})
    body = b"" if text is None else text.encode()
    if block:
        head += f"Prop-content-length: {len(block)}\n"
    if text is not None:
        head += f"Text-content-length: {len(body)}\n"
    return f"{head}Content-length: {len(block) + len(body)}\n\n".encode() + block + body + b"\n\n"


def line(source: random.Random) -> str:
    return " ".join(source.choices(WORDS, k=source.randint(3, 10))) + "\n"


def dump(revisions: int) -> list[bytes]:
    source = random.Random(6)
    files = {
        f"trunk/module{folder}/file{number}.txt": [line(source) for _ in range(LINES)]
        for folder in range(FOLDERS)
        for number in range(FILES_A_FOLDER)
    }
    parts = [b"SVN-fs-dump-format-version: 2\n\n"]
    parts.append(b"UUID: 6e2a9f7c-3d4b-4a1e-8c55-1f0d2b7a9e60\n\n")
    parts.append(revision(1, "ada", "the project begins"))
    for folder in ("trunk", *(f"trunk/module{number}" for number in range(FOLDERS))):
        parts.append(node(folder, "dir", "add"))
    for path, lines in files.items():
        parts.append(node(path, "file", "add", "".join(lines)))
    for number in range(2, revisions + 1):
        parts.append(revision(number, source.choice(("ada", "ben")), f"change {number}"))
        for path in sorted(source.sample(sorted(files), EDITS_A_REVISION)):
            lines = files[path]
            lines[source.randrange(len(lines))] = line(source)
            if source.random() < 0.3:
                lines.insert(source.randrange(len(lines)), line(source))
            parts.append(node(path, "file", "change", "".join(lines)))
    return parts


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(b"".join(dump(int(sys.argv[2]))))
