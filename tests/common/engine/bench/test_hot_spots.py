import cProfile
import io

from rich.console import Console

from common.engine.bench.hot_spots import HotSpot, from_cprofile, from_stacks, table

STACKS = """\
main (cli.py:1);load (model.py:2) 50
main (cli.py:1);answer (workload.py:9);step (engine.py:3);gemm (native.so) 6
main (cli.py:1);answer (workload.py:9);step (engine.py:3) 1
main (cli.py:1);answer (workload.py:9) 1
"""


def test_only_stacks_below_the_named_function_count() -> None:
    spots = from_stacks(STACKS, "answer")
    assert spots[0] == HotSpot("gemm (native.so)", 0.75, 0.75)
    by_name = {spot.name: spot for spot in spots}
    assert by_name["step (engine.py:3)"] == HotSpot("step (engine.py:3)", 0.125, 0.875)
    assert by_name["answer (workload.py:9)"].total == 1.0
    assert "load (model.py:2)" not in by_name
    assert "main (cli.py:1)" not in by_name


def test_recursion_counts_once() -> None:
    (spot,) = from_stacks("answer (a.py:1);answer (a.py:1) 4\n", "answer")
    assert spot == HotSpot("answer (a.py:1)", 1.0, 1.0)


def test_no_sample_below_it_is_no_spot() -> None:
    assert from_stacks("main (cli.py:1) 3\n", "answer") == []


def busy() -> int:
    return sum(range(400_000))


def test_cprofile_names_what_is_native_too() -> None:
    profile = cProfile.Profile()
    profile.runcall(busy)
    spots = from_cprofile(profile)
    assert spots[0].name == "<built-in method builtins.sum>"
    (outer,) = [spot for spot in spots if spot.name.startswith("busy (test_hot_spots.py:")]
    assert outer.total > 0.9
    assert sum(spot.alone for spot in spots) > 0.99


def test_the_table_shows_the_first_ones() -> None:
    file = io.StringIO()
    spots = [HotSpot("first", 0.5, 0.75), HotSpot("second", 0.25, 0.25)]
    Console(file=file, width=80).print(table(spots, "title", count=1))
    assert ["first", "50.0%", "75.0%"] in [line.split() for line in file.getvalue().splitlines()]
    assert "second" not in file.getvalue()
