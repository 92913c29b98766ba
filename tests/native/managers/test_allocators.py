"""Every allocator that is built on this machine, under small programs that test each member of the
malloc family, and under real programs whose output must be that which they give under glibc.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tare.memory_managers.catalogue import Recipe, load_recipes, object_path

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("c++") is None,
    reason="needs a C and a C++ compiler: apt-get install g++",
)

HERE = Path(__file__).parent
C_CHECKS = (
    *(
        "basics",
        "zeroed",
        "growth",
        "alignment",
        "bad_alignment",
        "large",
        "resized_aligned",
        "overflow",
        "huge",
    ),
    *("sets_errno", "out_of_memory", "threads", "thread_churn", "forks", "busy_fork"),
)
CPP_CHECKS = ("variants", "containers", "exceptions", "nothrow", "bad_alloc")

# What allocators do differently from glibc by their authors' choice, and Tare does not change.
NO_ERRNO = "returns NULL without setting errno when calloc's product overflows"
DEPARTURES = {
    ("dlmalloc", "sets_errno"): NO_ERRNO,
    ("mimalloc", "sets_errno"): NO_ERRNO,
    ("mimalloc2", "sets_errno"): NO_ERRNO,
    ("tcmalloc", "sets_errno"): NO_ERRNO,
    ("rpmalloc", "sets_errno"): NO_ERRNO,
    ("rpmalloc", "bad_alignment"): "posix_memalign takes any alignment",
    ("hoard", "overflow"): "aborts when memory cannot be had",
    ("hoard", "huge"): "aborts when memory cannot be had",
    ("hoard", "sets_errno"): "aborts when memory cannot be had",
    ("hoard", "out_of_memory"): "aborts when memory cannot be had",
    ("hoard", "nothrow"): "aborts when memory cannot be had",
    ("hoard", "bad_alloc"): "aborts when memory cannot be had",
    ("hardened", "out_of_memory"): "keeps the address space of freed large objects for a while",
    ("google-tcmalloc", "bad_alloc"): "ends the program instead of throwing bad_alloc",
    ("rpmalloc", "bad_alloc"): "its operator new returns NULL instead of throwing bad_alloc",
    ("scudo", "bad_alloc"): "its operator new returns NULL instead of throwing bad_alloc",
}
# Classics that by design do not use again what the check frees.
DEPARTURES |= {
    ("obstack", "out_of_memory"): "frees only the newest object",
    ("region", "out_of_memory"): "frees nothing",
}
# Not certain to fail: another thread must hold a lock at the time of the fork, or the collector
# (with free=ignored) must not be due to collect when the system gives no more.
RACES = {
    ("bdwgc", "out_of_memory"): "asks the system before it collects, and then gives up",
}
NOT_TRIED = {
    (name, "busy_fork"): "would take gigabytes: threads allocate for as long as others fork"
    for name in ("obstack", "region", "stacklike")
} | {
    (name, "busy_fork"): "does not guard its locks at a fork: a child waits until it is ended"
    for name in ("google-tcmalloc", "hoard")
}

FAMILY = frozenset(
    [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "malloc_usable_size",
    ]
)
OPTIONAL_FAMILY = frozenset(["reallocarray", "cfree", "free_sized", "free_aligned_sized"])
OPERATOR = re.compile(r"_Z(nw|na|dl|da)")
NEW_AND_DELETE = frozenset(
    [
        "_Znwm",
        "_Znam",
        "_ZnwmRKSt9nothrow_t",
        "_ZnamRKSt9nothrow_t",
        "_ZnwmSt11align_val_t",
        "_ZnamSt11align_val_t",
        "_ZnwmSt11align_val_tRKSt9nothrow_t",
        "_ZnamSt11align_val_tRKSt9nothrow_t",
        "_ZdlPv",
        "_ZdaPv",
        "_ZdlPvm",
        "_ZdaPvm",
        "_ZdlPvSt11align_val_t",
        "_ZdaPvSt11align_val_t",
        "_ZdlPvmSt11align_val_t",
        "_ZdaPvmSt11align_val_t",
    ]
)
OWN_SYMBOLS = {
    "jemalloc": r"mallctl.*|malloc_stats_print|mallocx|dallocx",
    "mimalloc": r"mi_version|mi_process_info|mi_stats_.*|mi_malloc|mi_free|mi_heap_.*",
    "mimalloc2": r"mi_version|mi_process_info|mi_stats_.*|mi_malloc|mi_free|mi_heap_.*",
    "google-tcmalloc": r"MallocExtension_Internal_.*",
    "scudo": r"__scudo_print_stats",
    "rpmalloc": r"pthread_create",
    "hoard": r"pthread_create|pthread_exit",
    "bdwgc": r"GC_(get_\w+|gcollect)|pthread_(create|exit|join|detach|sigmask)|sigprocmask"
    r"|mmap|mmap64|munmap|mremap|mprotect",
}


@dataclass(frozen=True)
class Variant:
    """A manager with options."""

    recipe: Recipe
    options: Mapping[str, str]

    def __str__(self) -> str:
        given = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.recipe.name}({given})" if given else self.recipe.name

    def environment(self) -> dict[str, str]:
        found = object_path(self.recipe)
        if found is None:
            pytest.skip(f"not installed: tare managers install {self.recipe.name}")
        return os.environ | self.recipe.environment(self.options) | {"LD_PRELOAD": str(found)}


def variants() -> list[Variant]:
    """Each manager as it is, and once more for each other choice of an option."""
    found = []
    for recipe in load_recipes().values():
        if recipe.object_file is None:
            continue
        found.append(Variant(recipe, {}))
        found += [
            Variant(recipe, {option.name: choice})
            for option in recipe.options
            for choice in option.choices
            if choice != option.default
        ]
    return found


each_variant = pytest.mark.parametrize("variant", variants(), ids=str)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    common = ["-O1", "-g", "-pthread", "-w"]
    commands: tuple[list[str | Path], ...] = (
        ["cc", *common, "-o", "family", HERE / "family.c", "-ldl"],
        ["c++", "-std=c++17", *common, "-o", "operators", HERE / "operators.cpp"],
    )
    for command in commands:
        subprocess.run(command, cwd=folder, check=True)
    return folder


def expect_departure(request: pytest.FixtureRequest, variant: Variant, check: str) -> None:
    key = (variant.recipe.name, check)
    if key in NOT_TRIED:
        pytest.skip(NOT_TRIED[key])
    reason = DEPARTURES.get(key) or RACES.get(key)
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=key in DEPARTURES))


def run_check(program: Path, check: str, environment: Mapping[str, str]) -> None:
    done = subprocess.run([program, check], env=environment, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")[-2000:]
    assert (done.returncode, done.stdout) == (0, b"done\n"), said


@pytest.mark.parametrize("check", C_CHECKS)
@each_variant
def test_malloc_family(
    variant: Variant, check: str, programs: Path, request: pytest.FixtureRequest
) -> None:
    environment = variant.environment()
    expect_departure(request, variant, check)
    run_check(programs / "family", check, environment)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@each_variant
def test_each_of_many_forks_finds_the_allocator_usable(
    variant: Variant, programs: Path, request: pytest.FixtureRequest
) -> None:
    """A lock that is held at a fork was seen once in some hundred."""
    environment = variant.environment()
    expect_departure(request, variant, "busy_fork")
    run_check(programs / "family", "busy_fork", environment | {"FORKS": "3000"})


@pytest.mark.parametrize("check", CPP_CHECKS)
@each_variant
def test_operators_new_and_delete(
    variant: Variant, check: str, programs: Path, request: pytest.FixtureRequest
) -> None:
    environment = variant.environment()
    expect_departure(request, variant, check)
    run_check(programs / "operators", check, environment)


@pytest.mark.parametrize("check", C_CHECKS)
def test_the_checks_hold_under_glibc(check: str, programs: Path) -> None:
    run_check(programs / "family", check, os.environ)


@pytest.mark.parametrize("check", CPP_CHECKS)
def test_the_operator_checks_hold_under_glibc(check: str, programs: Path) -> None:
    run_check(programs / "operators", check, os.environ)


@each_variant
def test_object_serves_the_whole_family(variant: Variant, programs: Path) -> None:
    environment = variant.environment()
    expected = object_path(variant.recipe)
    assert expected is not None
    said = subprocess.run(
        [programs / "family", "served"], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    served_by = dict(line.split(" ", 1) for line in said if not line.startswith("map "))
    assert served_by == dict.fromkeys(FAMILY, str(expected))
    assert any(line.endswith(str(expected.resolve())) for line in said if line.startswith("map "))


@each_variant
def test_only_intended_symbols_are_exported(variant: Variant) -> None:
    variant.environment()
    recipe = variant.recipe
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(object_path(recipe))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    symbols = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    assert symbols >= FAMILY
    assert symbols >= NEW_AND_DELETE
    if recipe.source is not None and recipe.source.type == "debian":
        return
    own = OWN_SYMBOLS.get(recipe.name, r"(?!)")
    assert [
        symbol
        for symbol in symbols - FAMILY - OPTIONAL_FAMILY
        if not OPERATOR.match(symbol) and not re.fullmatch(own, symbol)
    ] == []


@each_variant
def test_no_cpp_library_is_dragged_into_c_programs(variant: Variant) -> None:
    variant.environment()
    if variant.recipe.source is not None and variant.recipe.source.type == "debian":
        pytest.skip("Debian's own build")
    needed = subprocess.run(
        ["readelf", "-d", str(object_path(variant.recipe))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "libstdc++" not in needed
    assert "libgcc_s" not in needed


PERL = (
    "my %h; for (1..200000) { $h{'k' . ($_ % 5000)} .= 'x' x ($_ % 50) } "
    "print join(',', map { length } @h{sort keys %h})"
)
PYTHON = (
    "import json; d = [{str(i): list(range(i % 50))} for i in range(10000)]; t = json.dumps(d); "
    "print(json.loads(t) == d, len(t), sum(len(v) for e in d for v in e.values()))"
)
SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n "
    "where i < 30000) insert into t select i * 7919 % 5003, hex(zeroblob(i % 50)) from n; "
    "create index k on t(a); select count(*), sum(length(b)) from t where a < 2500; "
    "select a, group_concat(b) from t group by a order by a limit 100"
)
REAL_PROGRAMS = {
    "ls": ["ls", "-lR", "{input}"],
    "gawk": [
        "gawk",
        "{ for (i = 1; i <= NF; i++) n[$i] = n[$i] NR } END { print length(n) }",
        "{input}/0/0",
    ],
    "sqlite3": ["sqlite3", ":memory:", SQL],
    "sort": ["sort", "-r", "{input}/0/0"],
    "perl": ["perl", "-e", PERL],
    "python": ["/usr/bin/python3", "-c", PYTHON],
    "shell": ["sh", "-c", "for i in 1 2 3; do ls -l {input}/1 | sort | wc -l; done"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thousands of files, of which 0/0 has a megabyte."""
    folder = tmp_path_factory.mktemp("files")
    for i in range(3000):
        (folder / str(i % 50)).mkdir(exist_ok=True)
        (folder / str(i % 50) / str(i)).touch()
    lines = (f"Package: p{i * 7919 % 20011} word{i % 997} {'x' * (i % 60)}\n" for i in range(20000))
    (folder / "0" / "0").write_text("".join(lines))
    return folder


@cache
def said_plainly(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, check=True)


@pytest.mark.parametrize("name", REAL_PROGRAMS)
@each_variant
def test_real_programs_say_the_same(variant: Variant, name: str, files: Path) -> None:
    command = [word.replace("{input}", str(files)) for word in REAL_PROGRAMS[name]]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    environment = variant.environment()
    plain = said_plainly(*command)
    under = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert under.returncode == 0, under.stderr.decode(errors="replace")[-2000:]
    assert under.stdout == plain.stdout
    assert under.stderr == plain.stderr


def test_bdwgc_reclaims_although_free_does_nothing(tmp_path: Path) -> None:
    recipe = load_recipes()["bdwgc"]
    environment = Variant(recipe, {}).environment()
    source = tmp_path / "garbage.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "int main(void) {\n"
        "  for (int i = 0; i < 2000000; i++) {\n"
        "    char *volatile p = malloc(1000); p[0] = 1; free(p);\n"
        "  }\n"
        # ru_maxrss would begin with the peak of this test's own process.
        '  char line[256]; FILE *status = fopen("/proc/self/status", "r");\n'
        "  while (fgets(line, sizeof line, status) != NULL)\n"
        '    if (strncmp(line, "VmHWM:", 6) == 0) printf("%ld\\n", atol(line + 6));\n'
        "}\n"
    )
    program = tmp_path / "garbage"
    subprocess.run(["cc", "-o", program, source], check=True)
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    # 2 GB are allocated.
    assert int(done.stdout) < 100 * 1024


def test_bdwgc_serves_the_constructors_of_libraries_that_allocate_much(tmp_path: Path) -> None:
    """They run before the collector's own."""
    (tmp_path / "library.c").write_text(
        "#include <stdlib.h>\n"
        "static char *kept[4000];\n"
        "__attribute__((constructor)) static void begin(void) {\n"
        "  for (int i = 0; i < 4000; i++) { kept[i] = malloc(1000); kept[i][0] = (char)i; }\n"
        "  free(calloc(1, 1 << 20));\n"
        "}\n"
        "int whole(void) {\n"
        "  int count = 0;\n"
        "  for (int i = 0; i < 4000; i++) count += kept[i][0] == (char)i;\n"
        "  return count;\n"
        "}\n"
    )
    (tmp_path / "program.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "int whole(void);\n"
        "int main(void) {\n"
        "  for (int i = 0; i < 100000; i++) { char *volatile p = malloc(1000); p[0] = 1; }\n"
        '  printf("%d\\n", whole());\n'
        "}\n"
    )
    flags = ("-Wl,-rpath,$ORIGIN", "-L.", "-learly", "-o", "program")
    for words in (("-shared", "-fPIC", "library.c", "-o", "libearly.so"), ("program.c", *flags)):
        subprocess.run(["cc", *words], cwd=tmp_path, check=True)
    environment = Variant(load_recipes()["bdwgc"], {}).environment()
    done = subprocess.run(
        [tmp_path / "program"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "4000\n")


def test_bdwgc_itself_never_calls_what_it_shows_to_programs() -> None:
    """Its sources undefine macros, and a call of the wrapper would leave the collector's signals
    open where the collector means to block all."""
    library = object_path(load_recipes()["bdwgc"])
    assert library is not None
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    called = set(re.findall(r"(?:call|jmp) +[0-9a-f]+ <([^@+>]+)>", code))
    assert "tare_system_sigmask" in called
    assert called.isdisjoint({"pthread_sigmask", "sigprocmask"})
