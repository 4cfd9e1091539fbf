import math
from random import Random

import pytest

from common.domain.ids import ProcessId
from loadtest.predict.routing import POLICIES, RECENT_S, Account, choose, kv_aware, least_loaded
from services.router.placement import Candidate, Need, Stage, WorkerLoad
from services.router.policies import POLICIES as PRODUCT


def test_fewest_sequences_then_least_work_then_fewest_blocks() -> None:
    by_sequences = [Account(sequences=2), Account(sequences=1, pending_tokens=900, blocks=9)]
    assert choose(by_sequences, least_loaded, 0.0, 64) == 1
    by_work = [Account(10, 1, 1), Account(5, 1, 9)]
    assert choose(by_work, least_loaded, 0.0, 64) == 1
    by_blocks = [Account(5, 1, 4), Account(5, 1, 3)]
    assert choose(by_blocks, least_loaded, 0.0, 64) == 1
    assert choose([Account(), Account()], least_loaded, 0.0, 64) == 0


def test_recent_work_fades() -> None:
    account = Account()
    account.note_recent(1000, 10.0)
    account.note_recent(0, 10.0 + RECENT_S)
    assert account.recent_tokens(10.0 + RECENT_S) == pytest.approx(1000 / math.e)
    assert least_loaded(account, 10.0, 0)[1] == pytest.approx(1000)


def test_kv_aware_counts_prompt_work_and_context_where_it_decodes() -> None:
    few_long, many_short = Account(0, 1, 10), Account(64, 3, 2)
    assert choose([few_long, many_short], kv_aware, 0.0, 64, 32) == 1
    assert choose([few_long, many_short], kv_aware, 0.0, 64) == 0


def test_who_has_the_most_is_not_asked_and_perhaps_nobody_is() -> None:
    full = Account(sequences=4)
    assert choose([full, Account(sequences=3)], least_loaded, 0.0, 4) == 1
    assert choose([full, full], least_loaded, 0.0, 4) is None


@pytest.mark.parametrize("policy", ["least_loaded", "kv_aware"])
@pytest.mark.parametrize("stage", list(Stage))
def test_the_router_would_choose_the_same(policy: str, stage: Stage) -> None:
    random = Random(0)
    theirs = PRODUCT[policy](lambda n: 0)
    need = Need(100, 1, (), 32, 4, one_token=False)
    for _ in range(200):
        accounts = [
            Account(random.choice((0, 50, 400)), random.randrange(4), random.randrange(20))
            for _ in range(4)
        ]
        candidates = [
            Candidate(
                ProcessId(f"worker-{number}", number),
                WorkerLoad(
                    pending_tokens=one.pending_tokens,
                    sequences=one.sequences,
                    context_blocks=one.blocks,
                    blocks_used=one.blocks,
                ),
            )
            for number, one in enumerate(accounts)
        ]
        chosen = theirs.choose(stage, need, candidates)
        block_tokens = 32 if stage is Stage.DECODE else 0
        assert choose(accounts, POLICIES[policy], 0.0, 64, block_tokens) == candidates.index(chosen)
