// One step of the whole model, on all threads of a team at once.
//
// Between barriers a thread writes only its own share: panels, pairs of strips, or pieces of
// attention. Who computes what does not change any bit.
#pragma once
#include <atomic>
#include <chrono>
#include <cmath>

#include "attention.h"
#include "best.h"
#include "buffer.h"
#include "engine.h"
#include "layer_pool.h"
#include "sample.h"
#include "team.h"

namespace TF_LEVEL {

using twinfleet::Batch;
using twinfleet::Buffer;
using twinfleet::Layer;
using twinfleet::Plan;
using twinfleet::Row;
using twinfleet::Team;
using twinfleet::Work;

using namespace twinfleet::phase;

// What is divided beforehand, panel by panel: it costs little.
struct Share {
  int thread, threads;
  int first(int count) const { return count * thread / threads; }
  int last(int count) const { return count * (thread + 1) / threads; }
};

class Forward final : public twinfleet::Engine {
 public:
  Forward(const Model& model, const Pool& pool, int threads)
      : model_(model), pool_(pool), team_(threads), scratch_(threads), work_(kWorkPerLayer * model.layers + 1) {
    const size_t longest = std::max({model.hidden, model.heads * model.head_dim, model.intermediate});
    for (Scratch& s : scratch_) {
      s.attention.fit(model);
      s.strips.reserve(scratch_bytes(static_cast<int>(longest)));
      s.panel.reserve(longest * kLanes * sizeof(float));
    }
  }

  // Computes a batch: keys and values go to the pool, the wanted rows' best ids and logits to it.
  void run(const Batch& batch) override {
    plan_.make(model_, pool_, batch, team_.size());
    clear_begun_blocks(model_, pool_, plan_);
    fit(batch);
    team_.run([&](int thread) {
      const MatrixUnit unit;
      forward(batch, thread);
    });
  }

  int32_t draw(const float* logits, const DrawParams& params) override {
    return TF_LEVEL::draw(logits, model_.vocab, params, draw_scratch_);
  }

  const double* seconds() const override { return seconds_; }

 private:
  struct Scratch {
    AttentionScratch attention;
    Buffer strips, panel;
  };

  // Panels of packed inputs; `columns` of them at each.
  struct Packed {
    Buffer data;
    size_t panel_bytes = 0;
    Stored stored = Stored::kBf16;
    uint8_t* at(int panel) const { return data.as<uint8_t>() + panel * panel_bytes; }
    Panels panels(int count) const { return {at(0), panel_bytes, count}; }
    void fit(const Matrix& matrix, int panels) {
      stored = matrix.stored;
      panel_bytes = packed_bytes(stored, matrix.columns);
      data.reserve(panel_bytes * panels);
    }
  };

  static float* at(const Buffer& panels, int features, int panel) {
    return panels.as<float>() + static_cast<size_t>(panel) * features * kLanes;
  }

  void fit(const Batch& batch) {
    const int panels = count(), wanted = (batch.wanted_rows + kLanes - 1) / kLanes;
    const Layer& layer = model_.layer[0];
    residual_.reserve(sizeof(float) * kLanes * panels * model_.hidden);
    qkv_.reserve(sizeof(float) * kLanes * panels * model_.qkv_rows());
    mixed_.reserve(sizeof(float) * kLanes * panels * layer.output.columns);
    const bool packs_later = twinfleet::takes_int8(layer.down.stored);
    if (packs_later) activated_.reserve(sizeof(float) * kLanes * panels * act_rows());
    normed_packed_.fit(layer.qkv, panels);
    mixed_packed_.fit(layer.output, panels);
    activated_packed_.fit(layer.down, panels);
    head_packed_.fit(model_.head, wanted);
    turns_.reserve(sizeof(float) * kLanes * panels * model_.head_dim);
    for (Work& work : work_) work.begin(team_.size());
  }

  enum { kQkvWork, kAttentionWork, kOutputWork, kGateUpWork, kDownWork, kWorkPerLayer };
  Work& work(int layer, int which) { return work_[layer * kWorkPerLayer + which]; }

  int count() const { return static_cast<int>(plan_.panels.size()); }
  int tokens(int panel) const { return plan_.panels[panel].count; }
  int act_rows() const { return twinfleet::round_up(model_.intermediate, kLanes); }

  void forward(const Batch& batch, int thread) {
    const Share share{thread, team_.size()};
    clock(thread, kPhases);
    for (int p = share.first(count()); p < share.last(count()); ++p) begin(p);
    for (int l = 0; l < model_.layers; ++l) {
      const Layer& layer = model_.layer[l];
      norm(layer.input_norm, share);
      team_.barrier();
      clock(thread, kNorm);
      product(layer.qkv, normed_packed_, work(l, kQkvWork), thread, [&](int pair, int panel, const float* c) {
        copy_rows(at(qkv_, model_.qkv_rows(), panel), model_.qkv_rows(), pair, c);
      });
      team_.barrier();
      clock(thread, kQkv);
      for (int p = share.first(count()); p < share.last(count()); ++p) place_heads(layer, l, p);
      team_.barrier();
      clock(thread, kRotate);
      attend(l, thread);
      team_.barrier();
      for (int p = share.first(count()); p < share.last(count()); ++p) {
        const int width = layer.output.columns;
        pack(mixed_packed_.stored, at(mixed_, width, p), width, tokens(p), mixed_packed_.at(p));
      }
      team_.barrier();
      clock(thread, kAttention);
      add_product(layer.output, mixed_packed_, work(l, kOutputWork), thread);
      team_.barrier();
      clock(thread, kOutput);
      norm(layer.post_norm, share);
      team_.barrier();
      clock(thread, kNorm);
      gate_up(layer, work(l, kGateUpWork), share);
      team_.barrier();
      clock(thread, kGateUp);
      add_product(layer.down, activated_packed_, work(l, kDownWork), thread);
      team_.barrier();
      clock(thread, kDown);
    }
    head(batch, share);
    clock(thread, kHead);
  }

  // Embeddings, and what every layer turns queries and keys by.
  void begin(int p) {
    const PanelPlan& panel = plan_.panels[p];
    float* x = at(residual_, model_.hidden, p);
    std::fill(x, x + model_.hidden * kLanes, 0.0f);
    std::vector<float> row(model_.hidden);
    const int half = model_.head_dim / 2;
    float *cos = at(turns_, model_.head_dim, p), *sin = cos + half * kLanes;
    for (int lane = 0; lane < panel.count; ++lane) {
      read_row(model_.embedding, static_cast<int>(panel.rows[lane].token), row.data());
      for (int f = 0; f < model_.hidden; ++f) x[f * kLanes + lane] = row[f];
      for (int i = 0; i < half; ++i) {
        const float angle = static_cast<float>(panel.rows[lane].position) * model_.frequencies[i];
        cos[i * kLanes + lane] = static_cast<float>(std::cos(static_cast<double>(angle)));
        sin[i * kLanes + lane] = static_cast<float>(std::sin(static_cast<double>(angle)));
      }
    }
  }

  void norm(const float* weight, Share share) {
    float* normed = scratch_[share.thread].panel.as<float>();
    for (int p = share.first(count()); p < share.last(count()); ++p) {
      rms_norm(at(residual_, model_.hidden, p), weight, model_.hidden, model_.eps, normed);
      pack(normed_packed_.stored, normed, model_.hidden, tokens(p), normed_packed_.at(p));
    }
  }

  template <class Done>
  void product(const Matrix& matrix, const Packed& x, Work& work, int thread, Done&& done) {
    multiply(matrix, x.panels(count()), work, scratch_[thread].strips.as<bf16>(), done);
  }

  static void copy_rows(float* out, int rows, int pair, const float* c) {
    const int live = std::min(32, rows - pair * 32);
    for (int r = 0; r < live; ++r) store(out + (pair * 32 + r) * kLanes, load(c + r * kLanes));
  }

  void add_product(const Matrix& matrix, const Packed& x, Work& work, int thread) {
    product(matrix, x, work, thread, [&](int pair, int panel, const float* c) {
      float* out = at(residual_, model_.hidden, panel) + pair * 32 * kLanes;
      const int live = std::min(32, model_.hidden - pair * 32);
      for (int r = 0; r < live; ++r) store(out + r * kLanes, load(out + r * kLanes) + load(c + r * kLanes));
    });
  }

  // silu(gate) * up: the strips of a pair are sixteen features of each.
  void gate_up(const Layer& layer, Work& work, Share share) {
    const bool packs_later = twinfleet::takes_int8(activated_packed_.stored);
    product(layer.gate_up, normed_packed_, work, share.thread, [&](int pair, int panel, const float* c) {
      const auto feature = [&](int f) {
        return silu(load(c + f * kLanes)) * load(c + (kLanes + f) * kLanes);
      };
      if (packs_later) {
        float* out = at(activated_, act_rows(), panel) + pair * kTile;
        for (int f = 0; f < kLanes; ++f) store(out + f * kLanes, feature(f));
      } else {
        bf16* out = reinterpret_cast<bf16*>(activated_packed_.at(panel)) + pair * kTile;
        for (int f = 0; f < kLanes; f += 2) store_pairs(out + f * kLanes, feature(f), feature(f + 1));
      }
    });
    if (!packs_later) return;
    team_.barrier();
    for (int p = share.first(count()); p < share.last(count()); ++p) {
      pack_int8(at(activated_, act_rows(), p), model_.intermediate, tokens(p), activated_packed_.at(p));
    }
  }

  // Norms and turns the heads of a panel, and writes its keys and values to the pool.
  void place_heads(const Layer& layer, int index, int p) {
    const int dim = model_.head_dim, width = dim * kLanes;
    float* heads = at(qkv_, model_.qkv_rows(), p);
    const float *cos = at(turns_, dim, p), *sin = cos + dim / 2 * kLanes;
    for (int h = 0; h < model_.heads + model_.kv_heads; ++h) {
      const float* weight = h < model_.heads ? layer.q_norm : layer.k_norm;
      if (weight != nullptr) rms_norm(heads + h * width, weight, dim, model_.eps, heads + h * width);
      rotate(heads + h * width, dim, cos, sin);
    }
    const LayerPool pool{pool_, model_, index};
    for (int h = 0; h < model_.kv_heads; ++h) {
      const float* key = heads + (model_.heads + h) * width;
      write_head(pool, plan_.panels[p], h, key, key + model_.kv_heads * width);
    }
  }

  void attend(int layer, int thread) {
    const LayerPool pool{pool_, model_, layer};
    const int items = static_cast<int>(plan_.items.size());
    for (int i; (i = work(layer, kAttentionWork).claim_one()) < items;) {
      const Item& item = plan_.items[i];
      switch (item.panels) {
        case 2:
          attend_panels<2>(pool, item, thread);
          break;
        case 1:
          attend_panels<1>(pool, item, thread);
          break;
        default:
          attend_packed(pool, item, thread);
      }
    }
  }

  // U panels of a sequence: 16 * U tokens, each head of the kv head's group in its turn.
  template <int U>
  void attend_panels(const LayerPool& pool, const Item& item, int thread) {
    AttentionScratch& scratch = scratch_[thread].attention;
    const int dim = model_.head_dim, width = dim * kLanes, group = model_.group();
    bf16* const queries = scratch.queries.as<bf16>();
    std::vector<SoftmaxState> states;
    std::vector<Source> sources;
    for (int g = 0; g < group; ++g) {
      const int head = item.kv_head * group + g;
      for (int u = 0; u < U; ++u) {
        const PanelPlan& panel = plan_.panels[item.panel + u];
        alignas(64) float positions[kLanes];
        for (int i = 0; i < kLanes; ++i) positions[i] = i < panel.count ? panel.rows[i].position : -1.0f;
        const float* query = at(qkv_, model_.qkv_rows(), item.panel + u) + head * width;
        pack_bf16(query, dim, reinterpret_cast<uint8_t*>(queries + (g * U + u) * width));
        float* mixed = at(mixed_, model_.heads * dim, item.panel + u) + head * width;
        std::fill(mixed, mixed + width, 0.0f);
        states.push_back({load(positions), panel.rows[0].position, mixed});
      }
      sources.push_back({item.kv_head, queries + g * U * width, Mask{}});
    }
    for (int g = 0; g < group; ++g) {
      Attention<U>(pool, item.table, item.tokens, &sources[g], 1, &states[g * U], scratch).run();
    }
  }

  void attend_packed(const LayerPool& pool, const Item& item, int thread) {
    AttentionScratch& scratch = scratch_[thread].attention;
    const PanelPlan& panel = plan_.panels[item.panel];
    const int dim = model_.head_dim, width = dim * kLanes, group = model_.group();
    const float* heads = at(qkv_, model_.qkv_rows(), item.panel);
    float* mixed = at(mixed_, model_.heads * dim, item.panel);
    alignas(64) float positions[kLanes], owners[kLanes];
    std::fill(positions, positions + kLanes, -1.0f);
    std::fill(owners, owners + kLanes, -1.0f);
    bf16* const queries = scratch.queries.as<bf16>();
    float* const own = scratch.mixed.as<float>();
    std::fill(queries, queries + item.kv_heads * width, bf16{0});
    std::fill(own, own + width, 0.0f);
    const auto each_lane = [&](auto&& visit) {  // (query lane, kv head of the item, head, panel lane)
      for (int k = 0, lane = 0; k < item.kv_heads; ++k) {
        for (int g = 0; g < group; ++g) {
          for (int r = 0; r < item.rows; ++r) visit(lane++, k, (item.kv_head + k) * group + g, item.lane + r);
        }
      }
    };
    each_lane([&](int lane, int k, int head, int row) {
      positions[lane] = static_cast<float>(panel.rows[row].position);
      owners[lane] = static_cast<float>(k);
      bf16* to = queries + k * width + 2 * lane;
      const float* query = heads + head * width + row;
      for (int d = 0; d < dim; ++d) to[d / 2 * 2 * kLanes + d % 2] = narrow(query[d * kLanes]);
    });
    std::vector<Source> sources;
    for (int k = 0; k < item.kv_heads; ++k) {
      const Vec owner = load(owners), mine = splat(static_cast<float>(k));
      sources.push_back({item.kv_head + k, queries + k * width,
                         at_most(abs(owner - mine), splat(0.0f))});
    }
    SoftmaxState state{load(positions), panel.rows[item.lane].position, own};
    Attention<1>(pool, item.table, item.tokens, sources.data(), item.kv_heads, &state, scratch).run();
    each_lane([&](int lane, int, int head, int row) {
      for (int d = 0; d < dim; ++d) {
        mixed[head * width + d * kLanes + row] = own[d * kLanes + lane];
      }
    });
  }

  // Norm and head of the wanted rows alone, in panels of their own.
  void head(const Batch& batch, Share share) {
    const int panels = (batch.wanted_rows + kLanes - 1) / kLanes;
    float* normed = scratch_[share.thread].panel.as<float>();
    if (share.thread == 0) {
      std::vector<float> gathered(static_cast<size_t>(model_.hidden) * kLanes);
      for (int p = 0; p < panels; ++p) {
        const int tokens = std::min(kLanes, batch.wanted_rows - p * kLanes);
        for (int lane = 0; lane < tokens; ++lane) {
          const int place = plan_.place[batch.wanted[p * kLanes + lane]];
          const float* x = at(residual_, model_.hidden, place / kLanes) + place % kLanes;
          for (int f = 0; f < model_.hidden; ++f) gathered[f * kLanes + lane] = x[f * kLanes];
        }
        rms_norm(gathered.data(), model_.norm, model_.hidden, model_.eps, normed);
        pack(head_packed_.stored, normed, model_.hidden, tokens, head_packed_.at(p));
      }
      best_.assign(static_cast<size_t>(team_.size()) * panels, Best{});
    }
    team_.barrier();
    Best* best = best_.data() + static_cast<size_t>(share.thread) * panels;
    multiply(model_.head, head_packed_.panels(panels), work_.back(), scratch_[share.thread].strips.as<bf16>(),
             [&](int pair, int panel, const float* c) {
               const int rows = std::min(32, model_.vocab - pair * 32);
               best[panel].see(pair * 32, rows, c);
               for (int lane = 0; lane < kLanes && panel * kLanes + lane < batch.wanted_rows; ++lane) {
                 float* logits = batch.logits[panel * kLanes + lane];
                 if (logits == nullptr) continue;
                 for (int r = 0; r < rows; ++r) logits[pair * 32 + r] = c[r * kLanes + lane];
               }
             });
    team_.barrier();
    if (share.thread == 0) choose_best(batch, panels);
  }

  void choose_best(const Batch& batch, int panels) const {
    for (int i = 0; i < batch.wanted_rows; ++i) {
      const int lane = i % kLanes;
      const Best* winner = &best_[i / kLanes];
      for (int t = 1; t < team_.size(); ++t) {
        const Best* other = &best_[static_cast<size_t>(t) * panels + i / kLanes];
        if (other->before(*winner, lane)) winner = other;
      }
      batch.best[i] = static_cast<int32_t>(winner->id[lane]);
    }
  }

  void clock(int thread, int phase) {
    if (thread != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (phase < kPhases) seconds_[phase] += std::chrono::duration<double>(now - since_).count();
    since_ = now;
  }

  const Model& model_;
  const Pool& pool_;
  Team team_;
  Plan plan_;
  std::vector<Scratch> scratch_;
  Buffer residual_, qkv_, mixed_, activated_, turns_;
  Packed normed_packed_, mixed_packed_, activated_packed_, head_packed_;
  std::vector<Work> work_;  // of each piece that threads claim units of, in the order of a step
  std::vector<Best> best_;
  DrawScratch draw_scratch_;
  std::chrono::steady_clock::time_point since_;
  double seconds_[kPhases] = {};
};

}  // namespace TF_LEVEL
