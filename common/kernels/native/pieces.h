// The pieces of a step's attention: each gathers the queries of its lanes, and puts down what they find.
#pragma once
#include "attention.h"

namespace TF_LEVEL {

using twinfleet::Piece;
using twinfleet::Plan;

class Pieces {
 public:
  // qkv and mixed are panels. Of panels whose sequences are packed, mixed is [16 lanes][feature]: two
  // threads write to it at once, and must not do so to the same lines of memory.
  Pieces(const LayerPool& pool, const Plan& plan, const float* qkv, float* mixed, AttentionScratch& scratch)
      : pool_(pool), model_(pool.model), plan_(plan), qkv_(qkv), mixed_(mixed), scratch_(scratch) {}

  void attend(const Piece& piece) const {
    const Item& item = plan_.items[piece.first];
    if (item.panels == 2) return attend_panels<2>(item);
    if (item.panels == 1) return attend_panels<1>(item);
    piece.count == 1 ? attend_packed(item) : attend_together(piece);
  }

 private:
  const float* qkv(int panel) const {
    return qkv_ + static_cast<size_t>(panel) * model_.qkv_rows() * kLanes;
  }
  float* mixed(int panel) const {
    return mixed_ + static_cast<size_t>(panel) * model_.heads * model_.head_dim * kLanes;
  }

  // U panels of a sequence: 16 * U tokens, each head of the kv head's group in its turn.
  template <int U>
  void attend_panels(const Item& item) const {
    const int width = model_.head_dim * kLanes;
    bf16* const queries = scratch_.queries.as<bf16>();
    const Source source{item.kv_head, queries, Mask{}};
    for (int g = 0; g < model_.group(); ++g) {
      const int head = item.kv_head * model_.group() + g;
      SoftmaxState states[U];
      for (int u = 0; u < U; ++u) {
        const PanelPlan& panel = plan_.panels[item.panel + u];
        alignas(64) float positions[kLanes];
        for (int i = 0; i < kLanes; ++i) positions[i] = i < panel.count ? panel.rows[i].position : -1.0f;
        const float* query = qkv(item.panel + u) + head * width;
        pack_bf16(query, model_.head_dim, reinterpret_cast<uint8_t*>(queries + u * width));
        float* mixed_head = mixed(item.panel + u) + head * width;
        std::fill(mixed_head, mixed_head + width, 0.0f);
        states[u] = {load(positions), panel.rows[0].position, mixed_head};
      }
      Attention<U> attention(pool_, item.table, item.tokens, &source, 1, states, scratch_);
      attention.run();
      attention.finish();
    }
  }

  // The lanes of a packed item, and what they have seen so far.
  struct Packed {
    Source sources[kLanes];
    SoftmaxState state;
  };

  // A softmax state, lane by lane.
  struct LaneStates {
    alignas(64) float largest[kLanes], sums[2][kLanes];
    float* mixed = nullptr;

    LaneStates() = default;
    explicit LaneStates(const SoftmaxState& state) : mixed(state.mixed) {
      store(largest, state.largest);
      for (int i = 0; i < 2; ++i) store(sums[i], state.sums[i]);
    }
    void copy(int own, const LaneStates& from, int lane, int dim) {
      largest[own] = from.largest[lane];
      for (int i = 0; i < 2; ++i) sums[i][own] = from.sums[i][lane];
      for (int d = 0; d < dim; ++d) mixed[d * kLanes + own] = from.mixed[d * kLanes + lane];
    }
    void give(SoftmaxState& state) const {
      state.largest = load(largest);
      for (int i = 0; i < 2; ++i) state.sums[i] = load(sums[i]);
    }
  };

  // visit(query lane, kv head of the item, head, panel lane)
  template <class Visit>
  void each_lane(const Item& item, Visit&& visit) const {
    const int group = model_.group();
    for (int k = 0, lane = 0; k < item.kv_heads; ++k) {
      for (int g = 0; g < group; ++g) {
        for (int r = 0; r < item.rows; ++r) visit(lane++, k, (item.kv_head + k) * group + g, item.lane + r);
      }
    }
  }

  void put_query(const Item& item, int head, int row, bf16* queries, int lane) const {
    const float* query = qkv(item.panel) + head * model_.head_dim * kLanes + row;
    for (int d = 0; d < model_.head_dim; d += 2) {
      queries[d * kLanes + 2 * lane] = narrow(query[d * kLanes]);
      queries[d * kLanes + 2 * lane + 1] = narrow(query[(d + 1) * kLanes]);
    }
  }

  Packed gather(const Item& item) const {
    const PanelPlan& panel = plan_.panels[item.panel];
    const int width = model_.head_dim * kLanes;
    bf16* const queries = scratch_.queries.as<bf16>();
    float* const found = scratch_.mixed.as<float>();
    alignas(64) float positions[kLanes], owners[kLanes];
    std::fill(positions, positions + kLanes, -1.0f);
    std::fill(owners, owners + kLanes, -1.0f);
    std::fill(queries, queries + item.kv_heads * width, bf16{0});
    std::fill(found, found + width, 0.0f);
    each_lane(item, [&](int lane, int k, int head, int row) {
      positions[lane] = static_cast<float>(panel.rows[row].position);
      owners[lane] = static_cast<float>(k);
      put_query(item, head, row, queries + k * width, lane);
    });
    Packed packed{{}, {load(positions), panel.rows[item.lane].position, found}};
    for (int k = 0; k < item.kv_heads; ++k) {
      const Vec other = load(owners) - splat(static_cast<float>(k));
      packed.sources[k] = {item.kv_head + k, queries + k * width, at_most(abs(other), splat(0.0f))};
    }
    return packed;
  }

  void put_down(const Item& item) const {
    const int dim = model_.head_dim;
    for (int d = 0; d < dim; d += kLanes) {
      alignas(64) float turned[kTile];
      transpose(scratch_.mixed.as<float>() + d * kLanes, kLanes, turned);
      each_lane(item, [&](int lane, int, int head, int row) {
        store(mixed(item.panel) + (row * model_.heads + head) * dim + d, load(turned + lane * kLanes));
      });
    }
  }

  void attend_packed(const Item& item, Packed packed, int first) const {
    Attention<1> attention(pool_, item.table, item.tokens, packed.sources, item.kv_heads, &packed.state,
                           scratch_);
    attention.run(first);
    attention.finish();
    put_down(item);
  }
  void attend_packed(const Item& item) const { attend_packed(item, gather(item), 0); }

  // First each kv head's keys that all items look at, with a lane for each item's rows and heads; then
  // each item goes on alone, with its own lanes' states.
  void attend_together(const Piece& piece) const {
    const Item* const items = &plan_.items[piece.first];
    LaneStates shared[kLanes];
    for (int k = 0; k < items[0].kv_heads; ++k) shared[k] = attend_shared(piece, k);
    for (int i = 0, base = 0; i < piece.count; base += items[i].rows * model_.group(), ++i) {
      Packed packed = gather(items[i]);
      LaneStates own(packed.state);
      each_lane(items[i], [&](int lane, int k, int, int) {
        own.copy(lane, shared[k], base + lane - k * items[i].rows * model_.group(), model_.head_dim);
      });
      own.give(packed.state);
      attend_packed(items[i], packed, piece.shared);
    }
  }

  LaneStates attend_shared(const Piece& piece, int k) const {
    const Item* const items = &plan_.items[piece.first];
    const int width = model_.head_dim * kLanes;
    bf16* const queries = scratch_.queries.as<bf16>();
    float* const found = scratch_.shared.as<float>() + k * width;
    std::fill(queries, queries + width, bf16{0});
    std::fill(found, found + width, 0.0f);
    for (int i = 0, lane = 0; i < piece.count; ++i) {
      for (int g = 0; g < model_.group(); ++g) {
        const int head = (items[i].kv_head + k) * model_.group() + g;
        for (int r = 0; r < items[i].rows; ++r) put_query(items[i], head, items[i].lane + r, queries, lane++);
      }
    }
    const Source source{items[0].kv_head + k, queries, Mask{}};
    SoftmaxState state{splat(static_cast<float>(piece.shared)), piece.shared, found};
    Attention<1>(pool_, items[0].table, piece.shared, &source, 1, &state, scratch_).run();
    return LaneStates(state);
  }

  const LayerPool& pool_;
  const Model& model_;
  const Plan& plan_;
  const float* const qkv_;
  float* const mixed_;
  AttentionScratch& scratch_;
};

}  // namespace TF_LEVEL
