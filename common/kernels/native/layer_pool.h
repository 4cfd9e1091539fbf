// One layer's part of the block pool: where a head's keys and values lie, and how they get there.
#pragma once
#include "plan.h"
#include "vec.h"

namespace TF_LEVEL {

using twinfleet::Item;
using twinfleet::Model;
using twinfleet::PanelPlan;
using twinfleet::Pool;
using twinfleet::Run;

// Keys are [token][dim] and values [dim][token].
struct LayerPool {
  const Pool& pool;
  const Model& model;
  int layer;

  bf16* keys(int slot, int kv_head) const { return half(slot, kv_head, 0); }
  bf16* values(int slot, int kv_head) const { return half(slot, kv_head, 1); }

 private:
  bf16* half(int slot, int kv_head, int which) const {
    const size_t head = static_cast<size_t>(pool.block_tokens) * model.head_dim;
    const size_t index = (static_cast<size_t>(layer) * 2 + which) * model.kv_heads + kv_head;
    return reinterpret_cast<bf16*>(pool.memory + pool.slot_bytes * slot) + index * head;
  }
};

constexpr int kMostDims = 256;  // of a head

// Writes a panel's keys and values of one head, both [dim][16 lanes], to the blocks of its tokens.
inline void write_head(const LayerPool& pool, const PanelPlan& panel, int kv_head, const float* key,
                       const float* value) {
  const int dim = pool.model.head_dim, block = pool.pool.block_tokens;
  alignas(64) bf16 keys[kMostDims * kLanes], values[kMostDims * kLanes];
  for (int d = 0; d < dim; d += 2) {
    store_pairs(keys + d * kLanes, load(key + d * kLanes), load(key + (d + 1) * kLanes));
  }
  for (int d = 0; d < dim; ++d) store_narrow(values + d * kLanes, load(value + d * kLanes));
  for (const Run& run : panel.runs) {
    bf16* key_rows = pool.keys(run.slot, kv_head) + run.offset * dim;
    bf16* value_columns = pool.values(run.slot, kv_head) + run.offset;
    for (int i = 0; i < run.count; ++i) {
      for (int d = 0; d < dim; d += 2) {
        __builtin_memcpy(key_rows + i * dim + d, keys + d * kLanes + 2 * (run.lane + i), 4);
      }
    }
    for (int d = 0; d < dim; ++d) {
      __builtin_memcpy(value_columns + d * block, values + d * kLanes + run.lane,
                       run.count * sizeof(bf16));
    }
  }
}

}  // namespace TF_LEVEL
