// Attention over the block pool, in place: softmax is computed as it goes (FlashAttention-2, Dao
// 2023), over groups of 128 keys that begin at fixed positions of the sequence, in order.
//
// A lane is one query: one head of one token. Keys are rows of the left side and queries its
// columns, so scores come out [key][lane] and everything between the two products is lane by lane.
// Several kv heads of a sequence share one tile: each has its own lanes, its queries are zero in
// the others', and adding exact zeros changes nothing. So a lane's result depends on nothing but
// its own query and keys.
#pragma once
#include "layer_pool.h"
#include "panel.h"

namespace TF_LEVEL {

constexpr int kKeyGroup = 128;
constexpr int kStepKeys = 32;  // keys of one value product
constexpr float kNoScore = -1e30f;

// Queries of one kv head as the right side of a product, and which lanes are theirs.
struct Source {
  int kv_head;
  const bf16* queries;  // [dim / 2][16 lanes][2]
  Mask lanes;
};

// What one thread needs: some 200 KB at head_dim 64 and three kv heads.
struct AttentionScratch {
  static constexpr int kMostStates = 2 * kLanes;  // the query heads of a kv head, for two panels
  std::vector<float> scores = std::vector<float>(2 * kKeyGroup * kLanes);
  std::vector<float> products = std::vector<float>(4 * kTile);
  std::vector<bf16> weights = std::vector<bf16>(2 * kKeyGroup * kLanes);
  std::vector<bf16> separated;  // the same for each source, zero in the lanes of others
  std::vector<bf16> joined, queries;
  std::vector<float> mixed;
  std::vector<Operand> operands;

  void fit(const Model& model) {
    const size_t dim = model.head_dim;
    separated.resize(static_cast<size_t>(kLanes) * kKeyGroup * kLanes);
    joined.resize(kLanes * dim * kKeyGroup);
    queries.resize(kMostStates * dim * kLanes);
    mixed.resize(dim * kLanes);
    operands.resize(kLanes * std::max<size_t>(dim / kTileColumns, kKeyGroup / kStepKeys));
  }
};

// Softmax state of 16 lanes, each at a position of its own; below zero for a lane without query.
struct SoftmaxState {
  Vec positions;
  int lowest;    // no lane with a query stands before it
  float* mixed;  // [dim][16], zero at first
  Vec largest = splat(kNoScore), sum = splat(0.0f);
};

class Attention {
 public:
  Attention(const LayerPool& layer, AttentionScratch& scratch)
      : layer_(layer),
        scratch_(scratch),
        dim_(layer.model.head_dim),
        block_(layer.pool.block_tokens),
        scale_(splat(1.4426950408889634f / __builtin_sqrtf(static_cast<float>(dim_)))) {}

  // Adds keys [first, end) of one group to U states; nobody looks beyond `end`. The queries of the
  // second state lie behind those of the first. Two states mean one source.
  template <int U>
  void add_keys(const int32_t* table, const Source* sources, int count, int first, int end,
                SoftmaxState* states) {
    score<U>(table, sources, count, first, end);
    Vec shrinks[U];
    const int keys = twinfleet::round_up(end - first, kStepKeys);
    for (int u = 0; u < U; ++u) shrinks[u] = weigh(u, first, keys, states[u]);
    mix<U>(table, sources, count, first, end, shrinks, states);
  }

  void finish(SoftmaxState& state) const {
    const Vec factor = splat(1.0f) / max(state.sum, splat(1e-30f));
    for (int d = 0; d < dim_; ++d) {
      store(state.mixed + d * kLanes, load(state.mixed + d * kLanes) * factor);
    }
  }

 private:
  static constexpr size_t kGroupLanes = static_cast<size_t>(kKeyGroup) * kLanes;

  template <int U>
  void score(const int32_t* table, const Source* sources, int count, int first, int end) {
    const size_t stride = static_cast<size_t>(dim_) * 2;
    const int tiles = std::min(block_, kStepKeys) / kLanes;
    for (int key = first; key < end; key += tiles * kLanes) {
      Operand* operand = scratch_.operands.data();
      for (int s = 0; s < count; ++s) {
        const int slot = table[key / block_], offset = key % block_;
        const bf16* keys = layer_.keys(slot, sources[s].kv_head) + static_cast<size_t>(offset) * dim_;
        for (int d = 0; d < dim_; d += kTileColumns) {
          *operand++ = {keys + d, stride, kLanes * stride, sources[s].queries + d * kLanes};
        }
      }
      float* out = scratch_.scores.data() + (key - first) * kLanes;
      const int operands = static_cast<int>(operand - scratch_.operands.data());
      const Operand* all = scratch_.operands.data();
      const size_t next = static_cast<size_t>(dim_) * kLanes;
      tiles == 1 ? tile_products<1, U>(all, operands, next, out, kGroupLanes)
                 : tile_products<2, U>(all, operands, next, out, kGroupLanes);
    }
  }

  // Scores become weights, in pairs of keys; returns by what older results shrink.
  Vec weigh(int u, int first, int keys, SoftmaxState& state) {
    float* scores = scratch_.scores.data() + u * kGroupLanes;
    bf16* out = scratch_.weights.data() + u * kGroupLanes;
    for (int key = std::max(0, state.lowest + 1 - first); key < keys; ++key) {
      const Mask seen = at_most(splat(static_cast<float>(first + key)), state.positions);
      store(scores + key * kLanes, select(seen, load(scores + key * kLanes), splat(kNoScore)));
    }
    Vec largest[2] = {state.largest, state.largest};
    for (int key = 0; key < keys; key += 2) {
      for (int i = 0; i < 2; ++i) largest[i] = max(largest[i], load(scores + (key + i) * kLanes));
    }
    const Vec now = max(largest[0], largest[1]);
    const Vec shrink = exp2((state.largest - now) * scale_), offset = splat(0.0f) - now * scale_;
    Vec sums[2] = {splat(0.0f), splat(0.0f)};
    for (int key = 0; key < keys; key += 2) {
      Vec weights[2];
      for (int i = 0; i < 2; ++i) {
        weights[i] = exp2(fma(load(scores + (key + i) * kLanes), scale_, offset));
        if (first + key + i > state.lowest) {
          const Mask seen = at_most(splat(static_cast<float>(first + key + i)), state.positions);
          weights[i] = select(seen, weights[i], splat(0.0f));
        }
        sums[i] = sums[i] + weights[i];
      }
      store_pairs(out + key * kLanes, weights[0], weights[1]);
    }
    state.sum = state.sum * shrink + (sums[0] + sums[1]);
    state.largest = now;
    return shrink;
  }

  template <int U>
  void mix(const int32_t* table, const Source* sources, int count, int first, int end,
           const Vec* shrinks, SoftmaxState* states) {
    const int keys = twinfleet::round_up(end - first, kStepKeys);
    const bf16* weights = count > 1 ? separate(sources, count, keys) : scratch_.weights.data();
    Operand* operand = scratch_.operands.data();
    for (int s = 0; s < count; ++s) {
      for (int key = 0; key < keys; key += kStepKeys) {
        bf16* joined = scratch_.joined.data() + (s * kKeyGroup + key) * static_cast<size_t>(dim_);
        *operand = values(table, sources[s].kv_head, first + key, end, joined);
        operand++->b = weights + s * kGroupLanes + key * kLanes;
      }
    }
    constexpr int kTiles = U == 1 ? 4 : 2;
    int dim = 0;
    for (; dim + kTiles * kLanes <= dim_; dim += kTiles * kLanes) {
      mix_dims<kTiles, U>(operand, dim, shrinks, states);
    }
    for (; dim < dim_; dim += 32) mix_dims<2, U>(operand, dim, shrinks, states);
  }

  template <int T, int U>
  void mix_dims(const Operand* last, int dim, const Vec* shrinks, SoftmaxState* states) {
    float* products = scratch_.products.data();
    Operand* first = scratch_.operands.data();
    tile_products<T, U>(first, static_cast<int>(last - first), kGroupLanes, products, T * kTile);
    for (Operand* o = first; o < last; ++o) o->a += T * o->next / sizeof(bf16);
    for (int u = 0; u < U; ++u) {
      float* mixed = states[u].mixed + dim * kLanes;
      for (int at = 0; at < T * kTile; at += kLanes) {
        store(mixed + at, fma(load(mixed + at), shrinks[u], load(products + u * T * kTile + at)));
      }
    }
  }

  const bf16* separate(const Source* sources, int count, int keys) {
    const float* all = reinterpret_cast<const float*>(scratch_.weights.data());
    for (int s = 0; s < count; ++s) {
      float* own = reinterpret_cast<float*>(scratch_.separated.data() + s * kGroupLanes);
      for (int pair = 0; pair < keys / 2; ++pair) {
        store(own + pair * kLanes, select(sources[s].lanes, load(all + pair * kLanes), splat(0.0f)));
      }
    }
    return scratch_.separated.data();
  }

  // The values of 32 keys. Blocks of 16 are too short for a product: two are joined.
  Operand values(const int32_t* table, int kv_head, int key, int end, bf16* joined) const {
    const bf16* block = layer_.values(table[key / block_], kv_head);
    if (block_ >= kStepKeys) {
      const size_t stride = static_cast<size_t>(block_) * 2;
      return {block + key % block_, stride, kLanes * stride, nullptr};
    }
    const bf16* second = key + 16 < end ? layer_.values(table[key / block_ + 1], kv_head) : nullptr;
    for (int d = 0; d < dim_; ++d) {
      __builtin_memcpy(joined + d * kStepKeys, block + d * 16, 32);
      if (second == nullptr) {
        __builtin_memset(joined + d * kStepKeys + 16, 0, 32);
      } else {
        __builtin_memcpy(joined + d * kStepKeys + 16, second + d * 16, 32);
      }
    }
    return {joined, 64, kLanes * 64, nullptr};
  }

  const LayerPool& layer_;
  AttentionScratch& scratch_;
  const int dim_, block_;
  const Vec scale_;
};

}  // namespace TF_LEVEL
