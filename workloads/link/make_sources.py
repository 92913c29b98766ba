"""Writes C files that refer to one another's symbols, and compiles them into a folder.

usage: make_sources.py FOLDER FILES FUNCTIONS
"""

import random
import subprocess
import sys
from pathlib import Path


def main() -> None:
    folder, files, functions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(1)
    folder.mkdir()
    sources: list[str] = []
    for number in range(files):
        lines: list[str] = []
        for index in range(functions):
            other = f"f{rng.randrange(files)}_{rng.randrange(functions)}"
            lines.append(f"extern long {other}(long);")
            lines.append(f'static const char *text_{index} = "text {rng.randrange(5000)}";')
            lines.append(
                f"long f{number}_{index}(long x) "
                f"{{ return {other}(x + {index}) + text_{index}[0]; }}"
            )
        path = folder / f"file{number}.c"
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        sources.append(path.name)
    options = ["-c", "-g", "-fPIC", "-ffunction-sections", "-ffile-prefix-map=.=."]
    subprocess.run(["gcc", *options, *sources], cwd=folder, check=True)
    for source in sources:
        (folder / source).unlink()


if __name__ == "__main__":
    main()
