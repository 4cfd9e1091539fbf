import pytest

from loadtest.server_metrics import Page, metric_figures, parse_page, thinned

OURS = """\
# HELP twinfleet_worker_preemptions_total Sequences preempted.
# TYPE twinfleet_worker_preemptions_total counter
twinfleet_worker_preemptions_total {preemptions}
# TYPE twinfleet_worker_preemptions_created gauge
twinfleet_worker_preemptions_created 1.7e9
# TYPE twinfleet_worker_kv_blocks gauge
twinfleet_worker_kv_blocks 100.0
# TYPE twinfleet_worker_kv_blocks_used gauge
twinfleet_worker_kv_blocks_used {used}
# TYPE twinfleet_worker_requests_running gauge
twinfleet_worker_requests_running {running}
# TYPE twinfleet_worker_requests_waiting gauge
twinfleet_worker_requests_waiting 1
# TYPE twinfleet_worker_kv_waste_ratio gauge
twinfleet_worker_kv_waste_ratio 0.25
# TYPE twinfleet_worker_kv_token_seconds_total counter
twinfleet_worker_kv_token_seconds_total{{state="live"}} {live}
twinfleet_worker_kv_token_seconds_total{{state="tail"}} {tail}
twinfleet_worker_kv_token_seconds_total{{state="reserved"}} 2
"""
HISTOGRAM = """\
# TYPE wait_seconds histogram
wait_seconds_bucket{{le="0.1",stage="a"}} 1
wait_seconds_bucket{{le="+Inf",stage="a"}} {count}
wait_seconds_count{{stage="a"}} {count}
wait_seconds_sum{{stage="a"}} {total}
"""


def ours(
    *, preemptions: float = 0, used: float = 0, running: float = 0, live: float = 0, tail: float = 0
) -> Page:
    return parse_page(
        OURS.format(preemptions=preemptions, used=used, running=running, live=live, tail=tail)
    )


def counter(name: str, value: float, labels: str = "") -> str:
    return f"# TYPE {name}_total counter\n{name}_total{labels} {value}\n"


def gauge(name: str, value: float, labels: str = "") -> str:
    return f"# TYPE {name} gauge\n{name}{labels} {value}\n"


def of(*texts: str) -> dict[str, float]:
    """Pages of one process."""
    return metric_figures([{"p": parse_page(text)} for text in texts])


def test_a_counter_is_what_it_grew_by_over_all_processes() -> None:
    first = {"a": ours(preemptions=5), "b": ours(preemptions=1)}
    last = {"a": ours(preemptions=7), "b": ours(preemptions=4)}
    assert metric_figures([first, last])["twinfleet_worker_preemptions"] == 5


def test_labels_are_summed_but_for_those_that_are_kept() -> None:
    def page(one: int, two: int, failed: int) -> str:
        return (
            "# TYPE done_total counter\n"
            f'done_total{{outcome="ok",path="/a"}} {one}\n'
            f'done_total{{outcome="ok",path="/b"}} {two}\n'
            f'done_total{{outcome="failed",path="/a"}} {failed}\n'
        )

    found = of(page(1, 1, 0), page(4, 3, 2))
    assert found == {"done.ok": 5, "done.failed": 2}


def test_a_series_that_comes_up_on_the_way_began_at_zero() -> None:
    assert of("# TYPE x_total counter\n", counter("x", 3))["x"] == 3


@pytest.mark.parametrize("started", [False, True])
def test_a_counter_of_a_process_that_started_again_goes_on(*, started: bool) -> None:
    """Without the time of the start it shows by being smaller."""
    values = (10, 14, 12 if started else 3)
    pages = [counter("x", value) for value in values]
    if started:
        starts = (1, 1, 2)
        name = "twinfleet_process_start_time_seconds"
        pages = [p + gauge(name, start) for p, start in zip(pages, starts, strict=True)]
    assert of(*pages) == {"x": 4 + values[-1]}


def test_what_a_process_did_before_it_was_first_seen_does_not_count() -> None:
    moments = [{}, {"p": parse_page(counter("x", 100))}, {}, {"p": parse_page(counter("x", 101))}]
    assert metric_figures(moments)["x"] == 1


def test_a_histogram_is_its_mean_over_the_run() -> None:
    first, last = HISTOGRAM.format(count=2, total=1.0), HISTOGRAM.format(count=6, total=3.0)
    assert of(first, last) == {"wait_seconds.mean": 0.5}
    assert of(first, first) == {}


def test_gauges_are_summed_at_each_moment_between_the_first_and_the_last() -> None:
    moments = [
        {"a": ours(running=90), "b": ours(running=90)},
        {"a": ours(running=1), "b": ours(running=2)},
        {"a": ours(running=5)},
        {"a": ours(running=90), "b": ours(running=90)},
    ]
    found = metric_figures(moments)
    assert found["twinfleet_worker_requests_running.mean"] == 4
    assert found["requests_running.mean"] == 4
    assert found["requests_running.max"] == 5
    assert found["twinfleet_worker_kv_waste_ratio.max"] == 0.25


def test_a_run_too_short_for_a_moment_between_has_its_ends() -> None:
    found = metric_figures([{"a": ours(running=1)}, {"a": ours(running=3)}])
    assert (found["requests_running.mean"], found["requests_running.max"]) == (2, 3)


def test_kv_usage_is_of_all_pools_together() -> None:
    found = metric_figures([{"a": ours(used=50), "b": ours(used=0)}] * 3)
    assert found["kv_usage.max"] == 0.25


def test_waiting_is_in_the_router_and_in_the_workers() -> None:
    router = parse_page(gauge("twinfleet_router_queue_length", 4))
    assert metric_figures([{"router-0": router, "a": ours()}])["requests_waiting.max"] == 5


def test_kv_waste_is_of_the_run_alone() -> None:
    found = metric_figures([{"a": ours(live=100, tail=100)}, {"a": ours(live=130, tail=110)}])
    assert found["kv_waste"] == 0.25
    assert "kv_waste" not in metric_figures([{"a": ours()}, {"a": ours()}])


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("twinfleet_gateway_cached_tokens", "twinfleet_gateway_prompt_tokens"),
        ("vllm:prompt_tokens_cached", "vllm:prompt_tokens"),
        ("vllm:prefix_cache_hits", "vllm:prefix_cache_queries"),
        ("sglang:cached_tokens", "sglang:prompt_tokens"),
    ],
)
def test_the_share_of_prompts_from_caches_has_one_name(part: str, whole: str) -> None:
    label = '{cache_source="device"}'
    first = counter(part, 10, label) + counter(whole, 100)
    last = counter(part, 40, label) + counter(whole, 200)
    assert of(first, last)["prefix_hit_share"] == 0.3


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (gauge("vllm:num_requests_running", 3, '{engine="0"}'), {"requests_running.max": 3}),
        (gauge("vllm:num_requests_waiting", 2), {"requests_waiting.max": 2}),
        (gauge("vllm:kv_cache_usage_perc", 0.5), {"kv_usage.max": 0.5}),
        (gauge("sglang:num_running_reqs", 3), {"requests_running.mean": 3}),
        (gauge("sglang:num_queue_reqs", 2), {"requests_waiting.mean": 2}),
        (gauge("sglang:token_usage", 0.5), {"kv_usage.mean": 0.5}),
    ],
)
def test_levels_of_other_servers_have_the_same_names(
    texts: str, expected: dict[str, float]
) -> None:
    assert expected.items() <= of(texts).items()


def test_usage_of_several_engines_is_their_mean() -> None:
    name = "vllm:kv_cache_usage_perc"
    text = f'# TYPE {name} gauge\n{name}{{engine="0"}} 0.2\n{name}{{engine="1"}} 0.6\n'
    assert of(text)["kv_usage.max"] == pytest.approx(0.4)


def test_preemptions_of_other_servers_have_the_same_name() -> None:
    name = "vllm:num_preemptions"
    assert of(counter(name, 1), counter(name, 4))["preemptions"] == 3


def test_what_is_no_figure_gives_none() -> None:
    nothing = gauge("x_info", 1) + gauge("y_created", 1) + counter("python_gc_objects", 1)
    assert of(nothing + gauge("z", float("nan")) + "untyped 1\n", nothing) == {}
    assert metric_figures([]) == {}


def test_a_thinned_page_gives_the_same_figures() -> None:
    text = OURS.format(preemptions=1, used=2, running=3, live=4, tail=5)
    text += HISTOGRAM.format(count=6, total=7)
    assert "bucket" not in thinned(text)
    assert "HELP" not in thinned(text)
    assert parse_page(thinned(text)) == parse_page(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [("<html>", "metric name"), ('{"detail": "no"}', "labels"), ("not found", "to float")],
)
def test_what_is_no_page_is_an_error(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_page(text)
