"""Whose cache a request is served from: the warm worker's, the kvstore's, no other tenant's."""

from collections.abc import Iterator

import pytest

from tests.support.live import TOPOLOGIES, Json, Live, live_cluster, wait_until
from tests.support.streams import mock_output, mock_prompt

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

BLOCK = 32
SHARED = 8 * BLOCK
NEW_TOKENS = 4


@pytest.fixture(scope="module")
def aggregated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    topology = str(TOPOLOGIES / "mock-0p2d.toml")
    with live_cluster(tmp_path_factory.mktemp("run"), topology) as live:
        yield live


def ask(live: Live, prompt: list[int], **fields: object) -> Json:
    """Complete it, exactly; its one stream as the gateway remembers it."""
    answer = live.complete(prompt, NEW_TOKENS, **fields)
    assert answer["choices"][0]["token_ids"] == mock_output(prompt, NEW_TOKENS)
    (stream,) = answer["streams"]
    stream["cached"] = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    live.wait_until_nothing_is_held(5)
    return stream


def shared_prompts(seed: int, count: int) -> list[list[int]]:
    """One beginning of whole blocks, ends of their own."""
    beginning = mock_prompt(SHARED, seed)
    return [beginning + mock_prompt(20, seed + 1000 + i) for i in range(count)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_second_request_of_a_prefix_lands_on_the_worker_that_has_it(
    fleet: Live, seed: int
) -> None:
    first, second = (ask(fleet, prompt) for prompt in shared_prompts(seed, 2))
    assert first["cached"] == 0
    assert second["cached"] == SHARED
    assert second["writer"] == first["writer"]
    ledger = second["ledger"]
    computed = ledger["prefill_computed_tokens"] + ledger["decode_prefill_tokens"]
    assert computed == 20


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_of_two_workers_that_do_everything_too(aggregated: Live, seed: int) -> None:
    first, second = (ask(aggregated, prompt) for prompt in shared_prompts(seed, 2))
    assert first["cached"] == 0
    assert second["writer"] == first["writer"]
    assert second["ledger"]["cached_device_tokens"] == SHARED
    assert second["ledger"]["decode_prefill_tokens"] == 20


def drop_device_caches(live: Live) -> None:
    workers = [*live.processes("prefill"), *live.processes("decode")]
    for worker in workers:
        live.admin(worker.name, "POST /reset_prefix_cache")
    names = [worker.name for worker in workers]
    wait_until(
        lambda: all(live.status(name)["blocks_cached"] == 0 for name in names),
        5,
        "empty device caches",
    )


def test_without_device_caches_the_prompt_comes_from_the_host_tier(fleet: Live) -> None:
    (prompt,) = shared_prompts(7, 1)
    before = fleet.status("kvstore-0")["slots"]["held"]
    cold = ask(fleet, prompt)
    assert cold["ledger"]["prefill_computed_tokens"] == len(prompt)
    held = SHARED // BLOCK
    wait_until(
        lambda: fleet.status("kvstore-0")["slots"]["held"] == before + held, 5, "published blocks"
    )
    drop_device_caches(fleet)
    warm = ask(fleet, prompt)["ledger"]
    assert warm["cached_host_tokens"] == SHARED
    assert warm["cached_device_tokens"] == 0
    assert warm["prefill_computed_tokens"] + warm["decode_prefill_tokens"] == len(prompt) - SHARED


def test_nobody_is_served_from_the_blocks_of_another_salt(fleet: Live) -> None:
    (prompt,) = shared_prompts(8, 1)
    assert ask(fleet, prompt, cache_salt="x")["cached"] == 0
    assert ask(fleet, prompt, cache_salt="y")["cached"] == 0
    assert ask(fleet, prompt)["cached"] == 0
    assert ask(fleet, prompt, cache_salt="x")["cached"] == SHARED
