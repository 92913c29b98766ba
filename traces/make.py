"""Records the traces of this folder again: small real programs, with pointers and last uses.

    python traces/make.py [NAME]...

Each program runs in an empty folder of its own, and needs nothing but itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import tare as api
from tare.base.errors import TareError
from tare.heap_traces.trace import META_FILE
from tare.observers.asked import Asked
from tare.programs.program import Program

HERE = Path(__file__).parent

CPLUSPLUS = """
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>
struct Word { std::string text; std::vector<int> places; };
int main() {
  std::map<std::string, std::unique_ptr<Word>> index;
  unsigned state = 1;
  for (int place = 0; place < 6000; ++place) {
    state = state * 1103515245u + 12345u;
    std::string text = "a word of some length, number " + std::to_string(state >> 21);
    auto& word = index[text];
    if (!word) word = std::make_unique<Word>(Word{text, {}});
    word->places.push_back(place);
    if (place % 7 == 0) index.erase(index.begin());
  }
  std::size_t places = 0;
  for (const auto& [text, word] : index) places += word->places.size();
  std::cout << index.size() << ' ' << places << '\\n';
}
"""
GAWK = """BEGIN {
  for (i = 0; i < 6000; i++) {
    k = "w" (i * 7919 % 1511); count[k]++
    lines[i % 400] = lines[i % 400] " " k
  }
  n = asorti(count, sorted)
  for (i = 1; i <= n; i += 50) print sorted[i], count[sorted[i]]
  for (i = 0; i < 400; i += 100) print length(lines[i]), substr(lines[i], 1, 20)
}"""
PERL = """
my (%by, @rows);
for my $i (0 .. 1299) {
  my $row = { id => $i, name => 'name' . ($i * 7919 % 997), tags => [map { $_ * $i } 1 .. 3] };
  push @{ $by{ $row->{name} } }, $row;
  push @rows, $row;
  shift @rows if @rows > 300;
  delete $by{ 'name' . ($i * 31 % 997) } if $i % 5 == 0;
}
print scalar(keys %by), ' ', scalar(@rows), ' ', join(',', map { $_->{name} } @rows[0 .. 3]), "\\n";
"""
LUA = """
local function tree(depth)
  if depth == 0 then return {} end
  return { tree(depth - 1), tree(depth - 1), name = 'node ' .. depth }
end
local kept, count = {}, 0
for i = 1, 30 do kept[i % 8] = tree(6 + i % 4) end
for _, each in pairs(kept) do count = count + #each.name end
local words = {}
for i = 1, 3000 do words[#words + 1] = string.format('%d:%s', i, ('x'):rep(i % 17)) end
table.sort(words)
print(count, words[1], #table.concat(words))
"""
SQL = """
CREATE TABLE words (id INTEGER PRIMARY KEY, name TEXT, place INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
  INSERT INTO words SELECT i, 'word ' || (i * 7919 % 997), i % 100 FROM n;
CREATE INDEX by_name ON words (name);
SELECT name, count(*), group_concat(id) FROM words GROUP BY name HAVING count(*) > 3 LIMIT 5;
DELETE FROM words WHERE place < 30;
SELECT place, max(name) FROM words GROUP BY place ORDER BY 2 DESC LIMIT 3;
SELECT count(*) FROM words a JOIN words b ON a.name = b.name;
"""
BC = """
define f(n) { if (n < 2) return (1); return (n * f(n - 1)); }
f(150)
scale = 60
x = 2
for (i = 0; i < 300; i++) x = (x + 7 / x) / 2
x
for (n = 1000003; n < 1000300; n += 2) {
  for (d = 3; d * d <= n; d += 2) { if (n - n / d * d == 0) d = n }
}
4 * a(1)
"""
JQ = """[range(1200) | {id: ., name: "name \\(. * 7919 % 211)", tags: [., . + 1]}]
  | group_by(.name) | map({name: .[0].name, ids: map(.id), sum: (map(.tags[1]) | add)})
  | sort_by(-.sum) | .[:5]"""
MAKEFILE = """
PARTS := $(foreach a,0 1 2 3 4 5 6 7 8 9,$(foreach b,0 1 2 3 4 5 6 7 8 9,$(a)$(b)))
all: $(PARTS:%=part%.out)
%.out: %.mid
\t@cat $< > $@
%.mid:
\t@echo $(subst part,a part ,$*) > $@
"""
C_SOURCE = """
struct pair { int first, second; };
#define TIMES(n) int f##n(struct pair *p, int k) { int s = 0; \\
  for (int i = 0; i < k; i++) { s += p[i].first * n; if (s > 1000) s -= p[i].second; } return s; }
TIMES(1) TIMES(2) TIMES(3) TIMES(4) TIMES(5) TIMES(6) TIMES(7) TIMES(8) TIMES(9) TIMES(10)
int main(void) { struct pair p[4] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}; return f1(p, 4) > f9(p, 4); }
"""

FILES: Mapping[str, Mapping[str, str]] = {
    "cplusplus": {"index.cpp": CPLUSPLUS},
    "gawk": {"words.awk": GAWK},
    "perl": {"rows.pl": PERL},
    "lua": {"trees.lua": LUA},
    "sqlite": {"words.sql": SQL},
    "bc": {"numbers.bc": BC},
    "jq": {"groups.jq": JQ},
    "make": {"Makefile": MAKEFILE},
    "tcc": {"pairs.c": C_SOURCE},
}
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "cplusplus": ("./index",),
    "gawk": ("gawk", "-f", "words.awk"),
    "perl": ("perl", "rows.pl"),
    "lua": ("lua5.4", "trees.lua"),
    "sqlite": ("sqlite3", ":memory:", ".read words.sql"),
    "bc": ("bc", "-l", "numbers.bc"),
    "jq": ("jq", "-n", "-c", "-f", "groups.jq"),
    "make": ("make", "--dry-run", "--no-print-directory"),
    "tcc": ("tcc", "-c", "-o", "pairs.o", "pairs.c"),
}
PREPARE: Mapping[str, tuple[str, ...]] = {
    "cplusplus": ("g++", "-std=c++17", "-O2", "-o", "index", "index.cpp"),
}
ENVIRONMENT = {
    "LC_ALL": "C",
    "PERL_HASH_SEED": "0",
    "MAKEFLAGS": "",
    "MAKELEVEL": "0",
}


def record(name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="tare-") as folder:
        place = Path(folder)
        for file, text in FILES[name].items():
            (place / file).write_text(text)
        if name in PREPARE:
            subprocess.run(PREPARE[name], cwd=place, check=True)
        command = COMMANDS[name]
        if command[0].startswith("./"):
            command = (str(place / command[0]), *command[1:])
        program = Program(name, command, environment=ENVIRONMENT, directory=place)
        what = Asked(last_use=True, pointers=True)
        recorded = api.trace(program, what=what, replace=True, folder=HERE / f"{name}.tare")
    _forget_where(recorded.folder / META_FILE)
    objects = sum(process["objects"] for process in recorded.processes)
    size = sum(file.stat().st_size for file in recorded.folder.iterdir())
    print(f"{name}: {objects:,} objects, {size:,} bytes")


def _forget_where(path: Path) -> None:
    """Take what says on which machine, and in which folder, it was recorded from meta.json."""
    meta = json.loads(path.read_text())
    meta["machine"] = {}
    meta["program"]["directory"] = None
    meta["program"]["argv"] = [Path(word).name for word in meta["program"]["argv"]]
    meta["program"]["executable"] = Path(meta["program"]["executable"]).name
    for process in meta["processes"]:
        process["program"] = Path(process["program"]).name
    path.write_text(json.dumps(meta, indent=1) + "\n")


def main() -> None:
    try:
        for name in sys.argv[1:] or FILES:
            record(name)
    except TareError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
