// The pieces of a step's attention: each gathers the queries of its lanes, and puts down what they find.
#pragma once
#include "attention.h"

namespace TF_LEVEL {

using twinfleet::Plan;

class Pieces {
 public:
  // qkv and mixed are panels. Of panels whose sequences are packed, mixed is [16 lanes][feature]: two
  // threads write to it at once, and must not do so to the same lines of memory.
  Pieces(const LayerPool& pool, const Plan& plan, const float* qkv, float* mixed, AttentionScratch& scratch)
      : pool_(pool), model_(pool.model), plan_(plan), qkv_(qkv), mixed_(mixed), scratch_(scratch) {}

  void attend(const Item& item) const {
    switch (item.panels) {
      case 2:
        return attend_panels<2>(item);
      case 1:
        return attend_panels<1>(item);
      default:
        return attend_packed(item);
    }
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
      Attention<U>(pool_, item.table, item.tokens, &source, 1, states, scratch_).run();
    }
  }

  // visit(query lane, kv head of the item, head, panel lane)
  template <class Visit>
  void each_lane(const Item& item, Visit&& visit) const {
    for (int k = 0, lane = 0; k < item.kv_heads; ++k) {
      for (int g = 0; g < model_.group(); ++g) {
        for (int r = 0; r < item.rows; ++r) visit(lane++, k, (item.kv_head + k) * model_.group() + g, item.lane + r);
      }
    }
  }

  void attend_packed(const Item& item) const {
    const PanelPlan& panel = plan_.panels[item.panel];
    const int dim = model_.head_dim, width = dim * kLanes;
    const float* heads = qkv(item.panel);
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
      bf16* to = queries + k * width + 2 * lane;
      const float* query = heads + head * width + row;
      for (int d = 0; d < dim; ++d) to[d / 2 * 2 * kLanes + d % 2] = narrow(query[d * kLanes]);
    });
    Source sources[kLanes];
    for (int k = 0; k < item.kv_heads; ++k) {
      const Vec other = load(owners) - splat(static_cast<float>(k));
      sources[k] = {item.kv_head + k, queries + k * width, at_most(abs(other), splat(0.0f))};
    }
    SoftmaxState state{load(positions), panel.rows[item.lane].position, found};
    Attention<1>(pool_, item.table, item.tokens, sources, item.kv_heads, &state, scratch_).run();
    for (int d = 0; d < dim; d += kLanes) {
      alignas(64) float turned[kTile];
      transpose(found + d * kLanes, kLanes, turned);
      each_lane(item, [&](int lane, int, int head, int row) {
        store(mixed(item.panel) + (row * model_.heads + head) * dim + d, load(turned + lane * kLanes));
      });
    }
  }

  const LayerPool& pool_;
  const Model& model_;
  const Plan& plan_;
  const float* const qkv_;
  float* const mixed_;
  AttentionScratch& scratch_;
};

}  // namespace TF_LEVEL
