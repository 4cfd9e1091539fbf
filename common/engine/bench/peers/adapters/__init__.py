"""Who is measured by the peers' benchmark, and what opens it.

`module:function` of a model, a thread count and options; only the named peer's own interpreter
imports it.
"""

OURS = "ours"
ADAPTERS = {
    OURS: "common.engine.bench.peers.adapters.ours:open_engine",
    "llama": "common.engine.bench.peers.adapters.llama:open_engine",
    "openvino": "common.engine.bench.peers.adapters.openvino:open_engine",
    "vllm": "common.engine.bench.peers.adapters.vllm:open_engine",
}
