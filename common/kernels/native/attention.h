// Attention over the block pool, in place: softmax is computed as it goes (FlashAttention-2, Dao
// 2023), over steps of 32 keys that begin at fixed positions of the sequence, in order. Older results
// shrink only for a score that is much larger than all before it (FlashAttention-4 does so too).
// The values of up to 128 keys are mixed at once, which changes no order.
//
// A lane is one query: one head of one token. Keys are rows of the left side and queries its
// columns, so scores come out [key][lane] and everything between the two products is lane by lane.
// Several kv heads of a sequence share one tile: each has its own lanes, its queries are zero in
// the others', and adding exact zeros changes nothing. So a lane's result depends on nothing but
// its own query and keys.
#pragma once
#include "buffer.h"
#include "layer_pool.h"
#include "panel.h"
#include "powers.h"

namespace TF_LEVEL {

using twinfleet::Buffer;
using twinfleet::kStepKeys;

constexpr int kKeyGroup = 128;  // whose values are mixed at once
constexpr float kNoScore = -1e30f;

// Queries of one kv head as the right side of a product, and which lanes are theirs.
struct Source {
  int kv_head;
  const bf16* queries;  // [dim / 2][16 lanes][2]
  Mask lanes;
};

// Softmax state of 16 lanes, each at a position of its own; below zero for a lane without query.
struct SoftmaxState {
  Vec positions;
  int lowest = 0;          // no lane with a query stands before it
  float* mixed = nullptr;  // [dim][16], zero at first
  Vec largest = splat(kNoScore);
  Vec sums[2] = {splat(0.0f), splat(0.0f)};  // of the weights of even and of odd keys
};

// What one thread needs: some 100 KB at head_dim 64 and three kv heads.
struct AttentionScratch {
  Buffer scores;   // of one step: [state][key][16 lanes]
  Buffer weights;  // of one group: [state, or source: zero in others' lanes][key pair][16 lanes][2]
  Buffer joined, queries, mixed, shared;
  std::vector<Operand> operands;

  void fit(const Model& model) {
    const size_t dim = model.head_dim, lanes = kLanes;
    scores.reserve(2 * kStepKeys * lanes * sizeof(float));
    weights.reserve(lanes * kKeyGroup * lanes * sizeof(bf16));
    joined.reserve(lanes * dim * kKeyGroup * sizeof(bf16));
    queries.reserve(lanes * dim * lanes * sizeof(bf16));
    mixed.reserve(dim * lanes * sizeof(float));
    shared.reserve(lanes * dim * lanes * sizeof(float));
    operands.resize(lanes * std::max<size_t>(dim / kTileColumns, kKeyGroup / kStepKeys));
  }
};

// The attention of U states' lanes to the keys before `tokens`. The queries of the second state lie
// behind those of the first; two states mean one source.
template <int U>
class Attention {
 public:
  Attention(const LayerPool& layer, const int32_t* table, int tokens, const Source* sources, int count,
            SoftmaxState* states, AttentionScratch& scratch)
      : layer_(layer),
        table_(table),
        tokens_(tokens),
        sources_(sources),
        count_(count),
        states_(states),
        operands_(scratch.operands.data()),
        scores_(scratch.scores.as<float>()),
        weights_(scratch.weights.as<bf16>()),
        joined_(scratch.joined.as<bf16>()),
        dim_(layer.model.head_dim),
        block_(layer.pool.block_tokens),
        scale_(splat(kPowerSteps * 1.4426950408889634f / __builtin_sqrtf(static_cast<float>(dim_)))) {}

  // Keys from `first` on, where a step begins; the states have seen those before.
  void run(int first = 0) {
    int waiting = first;  // the first key whose value waits to be mixed
    for (int step = first, end = first + kStepKeys; step < tokens_; step = end, end += kStepKeys) {
      score(step);
      if (look(step)) {
        mix(waiting, step);
        waiting = step;
        shrink();
      }
      weigh(step);
      if (end % kKeyGroup != 0 && end < tokens_) continue;
      mix(waiting, end);
      waiting = end;
    }
  }

  // What was mixed becomes a mean.
  void finish() {
    for (int u = 0; u < U; ++u) {
      SoftmaxState& state = states_[u];
      const Vec factor = splat(1.0f) / max(state.sums[0] + state.sums[1], splat(1e-30f));
      for (int d = 0; d < dim_; ++d) store(state.mixed + d * kLanes, load(state.mixed + d * kLanes) * factor);
    }
  }

 private:
  static constexpr size_t kStepLanes = static_cast<size_t>(kStepKeys) * kLanes;
  static constexpr size_t kGroupLanes = static_cast<size_t>(kKeyGroup) * kLanes;
  // A lane sees its scores from its largest one until that is surpassed by more: only then what was
  // mixed must shrink. Weights stay below two to this.
  static constexpr float kSlack = 8.0f * kPowerSteps;

  void score(int step) {
    const int at_once = std::min(block_, kStepKeys);
    const size_t stride = static_cast<size_t>(dim_) * 2, next = static_cast<size_t>(dim_) * kLanes;
    for (int key = step; key < std::min(tokens_, step + kStepKeys); key += at_once) {
      Operand* operand = operands_;
      for (int s = 0; s < count_; ++s) {
        const bf16* keys = layer_.keys(table_[key / block_], sources_[s].kv_head);
        keys += static_cast<size_t>(key % block_) * dim_;
        for (int d = 0; d < dim_; d += kTileColumns) {
          *operand++ = {keys + d, stride, kLanes * stride, sources_[s].queries + d * kLanes};
        }
      }
      const int operands = static_cast<int>(operand - operands_);
      float* out = scores_ + (key - step) * kLanes;
      at_once == kLanes ? tile_products<1, U>(operands_, operands, next, true, out, kStepLanes)
                        : tile_products<2, U>(operands_, operands, next, true, out, kStepLanes);
    }
  }

  // Hides what lanes must not see. True if a lane found a score that older ones must shrink for.
  bool look(int step) {
    uint32_t any = 0;
    for (int u = 0; u < U; ++u) {
      SoftmaxState& state = states_[u];
      float* scores = scores_ + u * kStepLanes;
      for (int key = std::max(0, state.lowest + 1 - step); key < kStepKeys; ++key) {
        const Mask seen = at_most(splat(static_cast<float>(step + key)), state.positions);
        store(scores + key * kLanes, select(seen, load(scores + key * kLanes), splat(kNoScore)));
      }
      Vec largest[4] = {state.largest, state.largest, state.largest, state.largest};
      for (int key = 0; key < kStepKeys; key += 4) {
        for (int i = 0; i < 4; ++i) largest[i] = max(largest[i], load(scores + (key + i) * kLanes));
      }
      const Vec old = state.largest, now = max(max(largest[0], largest[1]), max(largest[2], largest[3]));
      const Mask surpassed = below(splat(kSlack), (now - old) * scale_);
      any |= bits(surpassed);
      state.largest = select(surpassed, now, old);
      shrinks_[u] = (old - state.largest) * scale_;
    }
    return any != 0;
  }

  void shrink() {
    for (int u = 0; u < U; ++u) {
      SoftmaxState& state = states_[u];
      const Vec by = exp2(shrinks_[u] * splat(1.0f / kPowerSteps));
      for (Vec& sum : state.sums) sum = sum * by;
      for (int d = 0; d < dim_; ++d) store(state.mixed + d * kLanes, load(state.mixed + d * kLanes) * by);
    }
  }

  // Scores become weights, in pairs of keys.
  void weigh(int step) {
    const PowerLookup lookup(kPowers);
    const Vec scale = scale_;
    const int count = count_;
    for (int u = 0; u < U; ++u) {
      SoftmaxState& state = states_[u];
      const float* scores = scores_ + u * kStepLanes;
      bf16* out = weights_ + u * kGroupLanes + step % kKeyGroup * kLanes;
      const Vec offset = splat(0.0f) - state.largest * scale;
      Vec even = state.sums[0], odd = state.sums[1];
      for (size_t at = 0; at < kStepLanes; at += 2 * kLanes) {
        const Pairs pair = powers(lookup, fma(load(scores + at), scale, offset),
                                  fma(load(scores + at + kLanes), scale, offset));
        even = even + even_of(pair);
        odd = odd + odd_of(pair);
        if (count == 1) {
          store(out + at, pair);
        } else {
          for (int s = 0; s < count; ++s) store(out + s * kGroupLanes + at, only(sources_[s].lanes, pair));
        }
      }
      state.sums[0] = even;
      state.sums[1] = odd;
    }
  }

  // Adds the weighed values of keys [first, end) of one group.
  void mix(int first, int end) {
    if (first == end) return;
    Operand* operand = operands_;
    for (int s = 0; s < count_; ++s) {
      for (int key = first; key < end; key += kStepKeys) {
        const int at = key % kKeyGroup;
        *operand = values(sources_[s].kv_head, key, joined_ + (s * kKeyGroup + at) * static_cast<size_t>(dim_));
        operand++->b = weights_ + s * kGroupLanes + at * kLanes;
      }
    }
    constexpr int kTiles = U == 1 ? 4 : 2;
    int dim = 0;
    for (; dim + kTiles * kLanes <= dim_; dim += kTiles * kLanes) mix_dims<kTiles>(operand, dim);
    for (; dim < dim_; dim += 2 * kLanes) mix_dims<2>(operand, dim);
  }

  template <int T>
  void mix_dims(const Operand* last, int dim) {
    const size_t next = states_[U - 1].mixed - states_[0].mixed;
    tile_products<T, U>(operands_, static_cast<int>(last - operands_), kGroupLanes, false,
                        states_[0].mixed + dim * kLanes, next);
    for (Operand* o = operands_; o < last; ++o) o->a += T * o->next / sizeof(bf16);
  }

  // The values of 32 keys. Blocks of 16 are too short for a product: two are joined.
  Operand values(int kv_head, int key, bf16* joined) const {
    const bf16* block = layer_.values(table_[key / block_], kv_head);
    if (block_ >= kStepKeys) {
      const size_t stride = static_cast<size_t>(block_) * 2;
      return {block + key % block_, stride, kLanes * stride, nullptr};
    }
    const bf16* second = key + 16 < tokens_ ? layer_.values(table_[key / block_ + 1], kv_head) : nullptr;
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
  const int32_t* const table_;
  const int tokens_;
  const Source* const sources_;
  const int count_;
  SoftmaxState* const states_;
  Operand* const operands_;
  float* const scores_;
  bf16 *const weights_, *const joined_;
  const int dim_, block_;
  const Vec scale_;
  Vec shrinks_[U];
};

}  // namespace TF_LEVEL
