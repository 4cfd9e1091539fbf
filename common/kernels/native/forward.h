// One step of the whole model, on all threads of a team at once.
//
// Between barriers a thread writes only its own share: panels, pairs of strips, or pieces of
// attention. Who computes what does not change any bit.
#pragma once
#include <atomic>
#include <chrono>
#include <cmath>

#include "best.h"
#include "buffer.h"
#include "engine.h"
#include "pieces.h"
#include "sample.h"
#include "team.h"

namespace TF_LEVEL {

using twinfleet::Batch;
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

  struct Scratch {
    AttentionScratch attention;
    Buffer strips, panel;
    Packed packed;  // a step's only panel
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
    for (Scratch& s : scratch_) {
      for (const Matrix* matrix : {&layer.output, &layer.down, &layer.qkv}) s.packed.fit(*matrix, 1);
    }
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
    team_.barrier();
    for (int l = 0; l < model_.layers; ++l) {
      const Layer& layer = model_.layer[l];
      const Packed& input = norm(layer.input_norm, share);
      clock(thread, kNorm);
      product(layer.qkv, input, work(l, kQkvWork), thread, [&](int pair, int panel, const float* c) {
        copy_rows(at(qkv_, model_.qkv_rows(), panel), model_.qkv_rows(), pair, c);
      });
      team_.barrier();
      clock(thread, kQkv);
      place_heads(layer, l, share);
      team_.barrier();
      clock(thread, kRotate);
      attend(l, thread);
      team_.barrier();
      const Packed& mixed = pack_mixed(layer.output.columns, share);
      clock(thread, kAttention);
      add_product(layer.output, mixed, work(l, kOutputWork), thread);
      team_.barrier();
      clock(thread, kOutput);
      const Packed& between = norm(layer.post_norm, share);
      clock(thread, kNorm);
      const Packed& activated = gate_up(layer, between, work(l, kGateUpWork), share);
      clock(thread, kGateUp);
      add_product(layer.down, activated, work(l, kDownWork), thread);
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

  // Calls pack(panel, to) for every panel. A step's only one is packed by each thread for itself:
  // that is sooner done than waited for.
  template <class Pack>
  const Packed& pack_panels(Packed& all, Share share, Pack&& pack) {
    if (count() == 1) {
      Packed& own = scratch_[share.thread].packed;
      pack(0, own.at(0));
      return own;
    }
    for (int p = share.first(count()); p < share.last(count()); ++p) pack(p, all.at(p));
    team_.barrier();
    return all;
  }

  const Packed& norm(const float* weight, Share share) {
    float* normed = scratch_[share.thread].panel.as<float>();
    return pack_panels(normed_packed_, share, [&](int p, uint8_t* to) {
      rms_norm(at(residual_, model_.hidden, p), weight, model_.hidden, model_.eps, normed);
      pack(normed_packed_.stored, normed, model_.hidden, tokens(p), to);
    });
  }

  const Packed& pack_mixed(int width, Share share) {
    float* turned = scratch_[share.thread].panel.as<float>();
    return pack_panels(mixed_packed_, share, [&](int p, uint8_t* to) {
      const float* mixed = at(mixed_, width, p);
      if (plan_.panels[p].packed) {
        for (int f = 0; f < width; f += kLanes) transpose(mixed + f, width, turned + f * kLanes);
        mixed = turned;
      }
      pack(mixed_packed_.stored, mixed, width, tokens(p), to);
    });
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

  // silu(gate) * up, packed: the strips of a pair are sixteen features of each.
  const Packed& gate_up(const Layer& layer, const Packed& x, Work& work, Share share) {
    const bool packs_later = twinfleet::takes_int8(activated_packed_.stored);
    product(layer.gate_up, x, work, share.thread, [&](int pair, int panel, const float* c) {
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
    team_.barrier();
    if (!packs_later) return activated_packed_;
    return pack_panels(activated_packed_, share, [&](int p, uint8_t* to) {
      pack_int8(at(activated_, act_rows(), p), model_.intermediate, tokens(p), to);
    });
  }

  // Norms and turns heads, and writes keys and values to the pool.
  void place_heads(const Layer& layer, int index, Share share) {
    const int dim = model_.head_dim, width = dim * kLanes, all = model_.heads + model_.kv_heads;
    const LayerPool pool{pool_, model_, index};
    for (int unit = share.first(count() * all); unit < share.last(count() * all); ++unit) {
      const int p = unit / all, h = unit % all;
      float* head = at(qkv_, model_.qkv_rows(), p) + h * width;
      const float *cos = at(turns_, dim, p), *sin = cos + dim / 2 * kLanes;
      const float* weight = h < model_.heads ? layer.q_norm : layer.k_norm;
      if (weight != nullptr) rms_norm(head, weight, dim, model_.eps, head);
      rotate(head, dim, cos, sin);
      if (h < model_.heads) continue;
      write_head(pool, plan_.panels[p], h - model_.heads, head, head + model_.kv_heads * width);
    }
  }

  void attend(int layer, int thread) {
    const LayerPool pool{pool_, model_, layer};
    const Pieces pieces(pool, plan_, qkv_.as<float>(), mixed_.as<float>(), scratch_[thread].attention);
    const int count = static_cast<int>(plan_.pieces.size());
    for (int i; (i = work(layer, kAttentionWork).claim_one()) < count;) pieces.attend(plan_.pieces[i]);
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
