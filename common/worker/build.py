"""From settings to the parts of a real worker process."""

import time
from dataclasses import replace
from pathlib import Path

from common.domain.ids import ProcessId
from common.engine.engine import Engine, EngineLimits
from common.engine.host import EngineThread
from common.engine.prefix_cache import PrefixCache
from common.store.arena import PAGE_BYTES, Arena
from common.store.publish import data_address, publish
from common.store.transfer import Transfer
from common.wire.pulse import PulseThread
from common.wire.zmq_port import ZmqPort
from common.worker.engines import load_engine
from common.worker.node import Parts
from common.worker.settings import WorkerSettings


def build_parts(settings: WorkerSettings, me: ProcessId) -> Parts:
    """Loads the model and faults in the pool: seconds, so call it before anybody waits."""
    loaded = load_engine(settings)
    layout = loaded.runner.layout
    slot_bytes = -(-layout.block_bytes // PAGE_BYTES) * PAGE_BYTES
    slots = max(2, settings.kv_pool_bytes // slot_bytes)
    arena = Arena.create(settings.name, slots, slot_bytes)
    loaded.runner.bind(arena.memory, slots, slot_bytes)
    engine = Engine(
        loaded.runner,
        PrefixCache(slots, arena.bump),
        _limits(settings),
        time.monotonic,
    )
    context = loaded.card.context_tokens
    context = min(context, settings.context_tokens or context)
    host = settings.host
    run_dir = Path(settings.run_dir)
    frames = data_address(settings.bind_address, settings.host, run_dir, settings.name)
    return Parts(
        port=ZmqPort(me, settings.bind_address),
        host=EngineThread(engine),
        arena=arena,
        layout=layout,
        transfer=Transfer.open(host),
        publish=lambda made: publish(made, me, host, run_dir, frames),
        heartbeat=PulseThread,
        card=replace(loaded.card, context_tokens=context),
    )


def _limits(settings: WorkerSettings) -> EngineLimits:
    return EngineLimits(
        step_tokens=settings.step_tokens,
        max_sequences=settings.max_sequences,
        tpot_target_ms=settings.tpot_target_ms,
        context_tokens=settings.context_tokens,
        scheduler=settings.scheduler,
        allocator=settings.allocator,
    )
