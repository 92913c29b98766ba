"""What `tare serve` makes of the output of loads, and of what it is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tare.base.errors import UsageError
from tare.records.metrics import METRICS
from tare.studies.serve.details import Phase, Served
from tare.studies.serve.figures import memory_figure
from tare.studies.serve.growing import (
    LONG_SECONDS,
    grown,
    growth_figure,
    growth_findings,
    growth_table,
)
from tare.studies.serve.loads import read_load
from tare.studies.serve.observe import load_command
from tare.studies.serve.ready import ready_of
from tare.studies.serve.report import told_by_all
from tare.studykit.printed import PERCENTILES, RATE, pattern_of

OUTPUTS = Path(__file__).parent / "loads"
P50, P90, P99, P999, P9999, LONGEST = PERCENTILES


@pytest.mark.parametrize(
    ("name", "reader", "values"),
    [
        (
            "redis-benchmark",
            "redis-benchmark",
            {RATE: 119760.48, P50: 223e-6, P99: 543e-6, P999: 9.935e-3, LONGEST: 10.095e-3},
        ),
        (
            "redis-benchmark-csv",
            "redis-benchmark",
            {RATE: 136054.42, P50: 215e-6, P99: 471e-6, LONGEST: 5.479e-3},
        ),
        # Of two results the rate is that of both together, the latency the longer one.
        (
            "redis-benchmark-quiet",
            "redis-benchmark",
            {RATE: 2 / (1 / 140845.06 + 1 / 57803.47), P50: 231e-6},
        ),
        ("ab", "ab", {RATE: 1272.21, P50: 2e-3, P90: 6e-3, P99: 14e-3, LONGEST: 19e-3}),
        ("wrk", "wrk", {RATE: 1644.6, P50: 1.84e-3, P90: 5.57e-3, P99: 9.73e-3, LONGEST: 16.15e-3}),
        ("hey", "hey", {RATE: 1718.7277, P50: 1.8e-3, P90: 4.2e-3, P99: 8.3e-3, LONGEST: 9.1e-3}),
        (
            "vegeta",
            "vegeta",
            {RATE: 199.95, P50: 824.2e-6, P90: 1.472e-3, P99: 10.63e-3, LONGEST: 20.349e-3},
        ),
        (
            "vegeta-json",
            "vegeta-json",
            {
                RATE: 199.951374,
                P50: 824.2e-6,
                P90: 1.47215e-3,
                P99: 10.630467e-3,
                LONGEST: 20.349265e-3,
            },
        ),
        ("memcaslap", "memcaslap", {RATE: 89019}),
        (
            "tare-load",
            "tare-load",
            {
                RATE: 5000.165,
                P50: 24.159e-6,
                P90: 110.975e-6,
                P99: 2.682879e-3,
                P999: 6.266879e-3,
                P9999: 7.118847e-3,
                LONGEST: 7.348223e-3,
                "service_p50_seconds": 23.919e-6,
                "service_p99_seconds": 1.622015e-3,
                "unsent_requests": 0,
            },
        ),
        ("pgbench", "pgbench", {RATE: 552.848848}),
        ("sysbench", "sysbench", {RATE: 1475.55, LONGEST: 20.37e-3}),
    ],
)
def test_the_output_of_a_load_is_read(name: str, reader: str, values: dict[str, float]) -> None:
    found = read_load((OUTPUTS / f"{name}.txt").read_text())
    assert found.reader == reader
    assert found.trouble == ""
    assert found.values == pytest.approx(values)


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("wrk-refused", "Non-2xx or 3xx responses: 1587"),
        ("hey-refused", "[404] 100 responses"),
        ("vegeta-refused", '"success":0,"status_codes":{"404":50}'),
    ],
)
def test_failed_requests_are_told(name: str, trouble: str) -> None:
    assert read_load((OUTPUTS / f"{name}.txt").read_text()).trouble == trouble


def test_failures_that_only_some_versions_print_are_told() -> None:
    output = (OUTPUTS / "ab.txt").read_text()
    failing = output.replace("Failed requests:        0", "Failed requests:        12")
    assert read_load(failing).trouble == "Failed requests: 12"
    own = (OUTPUTS / "tare-load.txt").read_text().replace("errors 0", "errors 3 http status: 500")
    assert read_load(own).trouble == "errors 3 http status: 500"
    vegeta = (OUTPUTS / "vegeta.txt").read_text().replace("100.00%", "99.50%")
    assert read_load(vegeta).trouble == "Success [ratio] 99.50%"


def test_own_patterns_find_figures() -> None:
    own = [pattern_of("rps=did ([0-9]+) a second"), pattern_of("p99=99%: ([0-9.]+(?:us|ms|s))")]
    found = read_load("did 120 a second\n99%: 3.5ms\n", own)
    assert found.reader == ""
    assert found.values == pytest.approx({RATE: 120, P99: 3.5e-3})


def test_own_patterns_go_before_what_is_known() -> None:
    found = read_load((OUTPUTS / "ab.txt").read_text(), [pattern_of("p99=  98% +([0-9]+)")])
    assert found.values[P99] == 12
    assert found.values[RATE] == pytest.approx(1272.21)


def test_a_word_in_place_of_a_number_is_refused() -> None:
    with pytest.raises(UsageError, match=r"printed 'many' where a number"):
        read_load("did many a second", [pattern_of("rps=did ([a-z]+)")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rps", "give NAME=PATTERN"),
        ("speed=([0-9]+)", "with a name of rps, p50"),
        ("rps=([0-9]+", "no regular expression"),
        ("rps=[0-9]+", "into a group"),
    ],
)
def test_a_wrong_pattern_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pattern_of(text)


def test_a_listed_percentile_stands_for_one_nearby_alone() -> None:
    listed = "".join(
        f"{percent:.3f}% <= {value} milliseconds (cumulative count 1)\n"
        for percent, value in ((87.5, 1), (90.625, 2), (98.438, 3), (99.219, 4), (99.902, 5))
    )
    found = read_load(f"throughput summary: 1.00 requests per second\n{listed}")
    assert found.values == pytest.approx({RATE: 1, P90: 2e-3, P999: 5e-3})


def test_percentiles_that_are_left_out_before_the_greatest_have_its_value() -> None:
    """redis-benchmark lists none of those once all requests are counted."""
    lists = (
        ((50.0, 1), (98.438, 2), (99.805, 5), (100.0, 5)),
        ((50.0, 1), (99.805, 3), (99.902, 4), (100.0, 6)),
        ((90.0, 2), (99.0, 3), (100.0, 7)),
    )
    listed = "".join(
        f"{percent:.3f}% <= {value} milliseconds (cumulative count 1)\n"
        for each in lists
        for percent, value in each
    )
    found = read_load(f"throughput summary: 1.00 requests per second\n{listed}").values
    assert found[P999] == 5e-3
    assert found["latency_p9999_seconds"] == 5e-3


def test_a_percentile_that_some_starts_leave_out_is_not_told() -> None:
    starts = [
        ("glibc", "latency_p99_seconds", 1.0),
        ("glibc", "latency_max_seconds", 2.0),
        ("glibc", "latency_p99_seconds", 1.0),
        ("glibc", "latency_p9999_seconds", 3.0),
        ("glibc", "latency_max_seconds", 3.0),
        ("jemalloc", "latency_p9999_seconds", 3.0),
        ("glibc", "requests_per_second", 5.0),
    ]
    schema = ["manager", "metric", "value"]
    measured = pl.DataFrame(starts, schema, orient="row").with_columns(program=pl.lit("redis"))
    left_out = ("glibc", "latency_p9999_seconds", 3.0)
    assert told_by_all(measured).select(schema).rows() == [
        each for each in starts if each != left_out
    ]


def test_all_that_is_read_is_published() -> None:
    assert {RATE, *PERCENTILES} <= METRICS.keys()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp:6379", ("127.0.0.1", 6379)),
        ("tcp:[::1]:80", ("::1", 80)),
        ("tcp:localhost:80", ("localhost", 80)),
        ("http://example.org/health?x=1", ("example.org", 80)),
        ("http://127.0.0.1:8080/", ("127.0.0.1", 8080)),
        ("log:ready", None),
        ("command:redis-cli ping", None),
    ],
)
def test_where_a_server_answers(text: str, address: tuple[str, int] | None) -> None:
    assert ready_of(text).address() == address


@pytest.mark.parametrize(
    "text",
    ["6379", "tcp:", "tcp:port", "tcp:70000", "tcp:0", "udp:1", "log:", "command:'", "http://h:x/"],
)
def test_a_wrong_way_to_be_ready_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--ready"):
        ready_of(text)


def test_memory_is_drawn_phase_by_phase() -> None:
    phases = (Phase("warm-up", 0, 1), Phase("load", 1, 5), Phase("idle", 5, 6))
    served = Served(0.1, ((0.0, 100), (1.0, 300), (4.9, 500), (5.2, 200)), phases, ({},))
    figure = memory_figure({"glibc": served})
    assert figure is not None
    rect, _, line = figure.spec["layer"]
    assert rect["data"]["values"] == [{"from": 2, "to": 3}]
    drawn = {point["x"]: point["bytes"] for point in line["data"]["values"]}
    assert max(drawn) < 3
    assert [drawn[min(drawn)], drawn[max(drawn)]] == [100, 200]
    assert {value for x, value in drawn.items() if 1 <= x < 2} == {300, 500}


def test_without_samples_there_is_no_figure() -> None:
    assert memory_figure({"glibc": Served(0.1, (), (), ())}) is None


def a_start(memory: Callable[[float], float], seconds: float) -> Served:
    """Ready at once, loaded twice with a pause between; looked at every second."""
    phases = (
        Phase("warm-up", 0, 10),
        Phase("load", 10, 10 + seconds / 2),
        Phase("idle", 10 + seconds / 2, 20 + seconds / 2),
        Phase("load", 20 + seconds / 2, 20 + seconds),
    )
    looks = tuple((float(when), memory(when)) for when in range(int(seconds) + 20))
    return Served(0.1, looks, phases, ())


def test_growth_is_that_of_time_under_load() -> None:
    mib = 1 << 20
    starts = {
        "grows": [a_start(lambda when: 100 * mib + when * 65536, 600)] * 2,
        "stays": [a_start(lambda _when: 100 * mib, 600)] * 2,
        "differs": [
            a_start(lambda _when: 100 * mib, 600),
            a_start(lambda when: 100 * mib + when * 65536, 600),
        ],
        "short": [a_start(lambda when: 100 * mib + when * 65536, LONG_SECONDS - 2)],
    }
    found = {each.manager: each for each in grown(starts)}
    words = {name: each.growth.word for name, each in found.items()}
    assert words == {"grows": "growth", "stays": "plateau", "differs": "undecided"}
    assert found["grows"].growth.slope == pytest.approx(65536, rel=0.02)
    assert found["grows"].times[-1] == pytest.approx(600, abs=2)
    table = growth_table([*found.values()], "", "")
    assert [row[1].text for row in table.rows] == ["growth", "plateau", "undecided"]
    assert "225 MiB" in " ".join(growth_findings([found["grows"]]))
    assert growth_figure([*found.values()]).spec["layer"]


def test_the_load_before_those_that_count_is_short() -> None:
    load = ["http://127.0.0.1:1/", "--rate", "5", "--for", "28800"]
    assert load_command(load)[-1] == "28800"
    assert load_command(load, 60.0)[-1] == "60"
    assert load_command(["wrk", "--for", "90"], 60.0) == ["wrk", "--for", "90"]
