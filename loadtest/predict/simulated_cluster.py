"""Workers, a router's rule and what lies between them, on virtual time: requests in, tokens out.

Follows the request path of the product: decode reserves, a prefill worker (if there is one)
computes the prompt and draws the first token, which goes to the client at once; blocks are copied
as they become final, and the sequence decodes when all of them have come. Without prefill workers
decode does it all, and one that has to give up its reservation computes the prompt itself.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from common.domain.ids import AttemptKey, RequestId
from common.domain.sampling import SamplingParams
from common.engine.bench.costs.step_costs import StepCosts
from common.engine.job import (
    Add,
    Computed,
    Deliver,
    Drop,
    Emitted,
    EngineEvent,
    FirstDrawn,
    Held,
    Refused,
    Revoke,
    Start,
    Unpin,
)
from common.engine.runner import Drawn
from common.kv.hashing import chain_root, extend_chain
from loadtest.predict.routing import POLICIES, Account, choose
from loadtest.predict.shared_machine import SharedMachine
from loadtest.predict.simulated_worker import SimulatedWorker, WorkerPlan
from loadtest.predict.surroundings import Surroundings
from loadtest.predict.virtual_clock import VirtualClock

_ROOT = chain_root("predicted")


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    prefill: tuple[WorkerPlan, ...]
    decode: tuple[WorkerPlan, ...]
    policy: str
    max_sequences: int
    """That the router gives to one worker."""


@dataclass(slots=True, eq=False)
class Answering:
    """One request on its way. The client reads what is public."""

    prompt: list[int]
    max_tokens: int
    on_token: Callable[[], object]
    on_end: Callable[[], object]
    cached_tokens: int = 0
    error: str = ""
    writer: int = 0
    prefill: int | None = None
    """Who computes the prompt; None: the writer, or nobody any more."""
    told: int = 0
    """Tokens that the client has."""
    first: tuple[Drawn, ...] = ()
    copied_s: float = 0.0
    """When all that was computed so far has been copied."""
    is_copied: bool = False


class SimulatedCluster:
    def __init__(
        self, plan: ClusterPlan, costs: StepCosts, around: Surroundings, clock: VirtualClock
    ) -> None:
        self._plan = plan
        self._around = around
        self._clock = clock
        self._machine = machine = SharedMachine(costs, around.cpu_s_a_s)
        self._token_bytes = costs.token_bytes
        self._rank = POLICIES[plan.policy]
        self._open: dict[AttemptKey, Answering] = {}
        self._queue: deque[AttemptKey] = deque()
        self._requests = 0
        self.decode = [
            SimulatedWorker(one, clock, machine, self._from_decode) for one in plan.decode
        ]
        self.prefill = [
            SimulatedWorker(one, clock, machine, partial(self._from_prefill, number))
            for number, one in enumerate(plan.prefill)
        ]
        self._decode_accounts = [Account() for _ in plan.decode]
        self._prefill_accounts = [Account() for _ in plan.prefill]

    @property
    def accounts(self) -> list[Account]:
        """Of all workers: what the router believes them to carry."""
        return [*self._prefill_accounts, *self._decode_accounts]

    def ask(self, answering: Answering) -> None:
        key = AttemptKey(RequestId(f"request-{self._requests}"), 0)
        self._requests += 1
        self._open[key] = answering
        self._machine.spend(self._around.cpu_us_a_request * 1e-6)
        self._clock.after(self._around.request_ms * 1e-3, partial(self._enqueue, key))

    def _enqueue(self, key: AttemptKey) -> None:
        self._queue.append(key)
        self._place_waiting()

    def _place_waiting(self) -> None:
        while self._queue and self._place(self._queue[0]):
            self._queue.popleft()

    def _place(self, key: AttemptKey) -> bool:
        """False: no worker has room."""
        answering, now, most = self._open[key], self._clock.now, self._plan.max_sequences
        block_tokens = self._plan.decode[0].block_tokens
        writer = choose(self._decode_accounts, self._rank, now, most, block_tokens)
        prefill = choose(self._prefill_accounts, self._rank, now, most)
        if writer is None or (prefill is None and self.prefill):
            return False
        answering.writer, answering.prefill = writer, prefill
        tokens = len(answering.prompt)
        account = self._decode_accounts[writer]
        account.sequences += 1
        account.blocks += self._blocks(tokens + 1)
        account.note_recent(tokens, now)
        if prefill is None:
            account.pending_tokens += tokens
        else:
            account = self._prefill_accounts[prefill]
            account.sequences += 1
            account.blocks += self._blocks(tokens)
            account.pending_tokens += tokens
            account.note_recent(tokens, now)
        self.decode[writer].submit(self._add(key, hand_off=False))
        return True

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._plan.decode[0].block_tokens)

    def _add(self, key: AttemptKey, *, hand_off: bool) -> Add:
        answering = self._open[key]
        params = SamplingParams(
            seed=0, max_tokens=answering.max_tokens, temperature=0.0, ignore_eos=True
        )
        units = extend_chain(_ROOT, answering.prompt)
        return Add(key, answering.prompt, units, _ROOT, params, hand_off)

    def _from_decode(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            match event:
                case Held(key):
                    self._held(key, event.cached_tokens)
                case Emitted(key):
                    self._emitted(key, event)
                case Refused(key):
                    self._open[key].error = event.message
                    self._end(key)
                case Revoke(key):
                    self._compute_there(key)
                case _:
                    pass

    def _held(self, key: AttemptKey, cached: int) -> None:
        answering = self._open[key]
        answering.cached_tokens = cached
        writer = self.decode[answering.writer]
        if answering.prefill is None:
            writer.submit(Start(key, cached))
        else:
            prefill = self.prefill[answering.prefill]
            self._hop(partial(prefill.submit, self._add(key, hand_off=True)))

    def _compute_there(self, key: AttemptKey) -> None:
        """The reservation is needed by others: a new one, and no second hand-off."""
        answering = self._open[key]
        if answering.prefill is not None:
            self._leave_prefill(key)
        writer = self.decode[answering.writer]
        writer.submit(Drop(key))
        writer.submit(self._add(key, hand_off=False))

    def _from_prefill(self, number: int, events: Sequence[EngineEvent]) -> None:
        worker = self.prefill[number]
        for event in events:
            match event:
                case Held(key):
                    answering = self._open.get(key)
                    if answering is None or answering.prefill is None:
                        worker.submit(Drop(key))
                        continue
                    have = answering.cached_tokens // worker.plan.block_tokens
                    worker.submit(Start(key, event.cached_tokens, have))
                case Computed(key):
                    self._copy(worker, key, event)
                case FirstDrawn(key):
                    self._first_drawn(key, event.first)
                case Refused(key):
                    self._compute_there(key)
                case Revoke(key):
                    worker.submit(Drop(key))
                    worker.submit(self._add(key, hand_off=True))
                case _:
                    pass

    def _copy(self, worker: SimulatedWorker, key: AttemptKey, event: Computed) -> None:
        """Beside everything else, one after another."""
        answering = self._open.get(key)
        if answering is None or answering.prefill is None:
            worker.submit(Unpin(event.slots))
            return
        size = len(event.slots) * worker.plan.block_tokens * self._token_bytes
        begins_s = max(self._clock.now, answering.copied_s)
        answering.copied_s = begins_s + self._around.copy_s(size)
        self._machine.spend(self._around.cpu_s_a_gb * size / 1e9)
        self._clock.at(answering.copied_s, partial(self._copied, worker, key, event))

    def _copied(self, worker: SimulatedWorker, key: AttemptKey, event: Computed) -> None:
        worker.submit(Unpin(event.slots))
        answering = self._open.get(key)
        if event.last and answering is not None and answering.prefill is not None:
            answering.is_copied = True
            self._hand_over(key)

    def _first_drawn(self, key: AttemptKey, first: tuple[Drawn, ...]) -> None:
        answering = self._open.get(key)
        if answering is None or answering.prefill is None:
            return
        answering.first = first
        self._hop(partial(self._tell_first, answering))
        self._hand_over(key)

    def _hand_over(self, key: AttemptKey) -> None:
        answering = self._open[key]
        if answering.first and answering.is_copied:
            self._leave_prefill(key)
            self.decode[answering.writer].submit(Deliver(key, answering.first))

    def _leave_prefill(self, key: AttemptKey) -> None:
        answering = self._open[key]
        assert answering.prefill is not None
        account = self._prefill_accounts[answering.prefill]
        account.sequences -= 1
        account.blocks -= self._blocks(len(answering.prompt))
        account.pending_tokens -= len(answering.prompt)
        self.prefill[answering.prefill].submit(Drop(key))
        answering.prefill = None
        self._place_waiting()

    def _emitted(self, key: AttemptKey, event: Emitted) -> None:
        answering = self._open[key]
        if event.index == 0 and not self.prefill:
            self._decode_accounts[answering.writer].pending_tokens -= len(answering.prompt)
        if event.index >= answering.told:
            self._tell(answering)
        if event.finish is not None:
            self._end(key)

    def _tell_first(self, answering: Answering) -> None:
        if not answering.told:
            self._tell(answering)

    def _tell(self, answering: Answering) -> None:
        answering.told += 1
        self._machine.spend(self._around.cpu_us_a_token * 1e-6)
        answering.on_token()

    def _end(self, key: AttemptKey) -> None:
        answering = self._open.pop(key)
        account = self._decode_accounts[answering.writer]
        account.sequences -= 1
        account.blocks -= self._blocks(len(answering.prompt) + 1)
        answering.on_end()
        self._place_waiting()

    def _hop(self, call: Callable[[], object]) -> None:
        self._clock.after(self._around.hop_ms * 1e-3, call)
