"""Writes a catalogue of translated messages, and the template of a newer version of the program.

make_catalogue.py OLD NEW MESSAGES
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

WORDS = (
    "file cannot be opened written read line number column unknown option argument missing value "
    "device full server closed connection user group permission denied name too long version"
).split()
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n'


def entry(number: int, line: int, text: str, translation: str) -> str:
    return (
        f"#. message {number} of the program\n#: source/part{number % 40}.c:{line}\n"
        f'msgid "{text}"\nmsgstr "{translation}"\n'
    )


def catalogues(count: int) -> tuple[str, str]:
    source = random.Random(4)
    old, new = [HEADER], [HEADER]
    for number in range(count):
        text = f"{number}: {' '.join(source.choices(WORDS, k=source.randint(3, 14)))}"
        line = source.randrange(5000)
        if source.random() < 0.9:
            old.append(entry(number, line, text, text.upper()))
        if source.random() < 0.95:
            new.append(entry(number, line + source.randrange(50), text, ""))
    return "\n".join(old), "\n".join(new)


if __name__ == "__main__":
    for path, text in zip(sys.argv[1:3], catalogues(int(sys.argv[3])), strict=True):
        Path(path).write_text(text, encoding="ascii")
