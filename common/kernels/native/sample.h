// One token of a row of logits: the most likely one, or one drawn as SamplingParams says.
//
// A token's weight is a whole number: its probability over the most likely token's, in units of
// 2^-34. Sums of whole numbers are exact in a double, in any order, for up to 2^19 tokens. So the
// mass of a vocabulary that nobody sorted, and that of a ranking made piece by piece, are what a
// full sort would give; and below the last weight that rounds to 0 there is nothing to draw.
#pragma once
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "draw_params.h"
#include "vec.h"

namespace TF_LEVEL {

using twinfleet::DrawParams;

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

// visit(first id, logits) for each sixteen tokens; past the end they are -inf.
template <class Visit>
void for_each_panel(const float* logits, int32_t vocab, Visit visit) {
  int32_t first = 0;
  for (; first + kLanes <= vocab; first += kLanes) visit(first, load(logits + first));
  if (first == vocab) return;
  float rest[kLanes];
  std::fill(std::copy(logits + first, logits + vocab, rest), rest + kLanes, kNegativeInfinity);
  visit(first, load(rest));
}

// NaN counts as -inf.
inline float highest(const float* logits, int32_t vocab) {
  Vec most = splat(kNegativeInfinity);
  // Of a NaN and a number, `max` gives the second.
  for_each_panel(logits, vocab, [&](int32_t, Vec some) { most = max(some, most); });
  float lanes[kLanes];
  store(lanes, most);
  return *std::max_element(lanes, lanes + kLanes);
}

inline int32_t first_at(const float* logits, int32_t vocab, float peak) {
  if (peak == kNegativeInfinity) return 0;
  int32_t found = -1;
  for_each_panel(logits, vocab, [&](int32_t first, Vec some) {
    const uint32_t there = found < 0 ? bits(at_most(splat(peak), some)) : 0;
    if (there != 0) found = first + __builtin_ctz(there);
  });
  return found;
}

// Of equal logits, the lowest id.
inline int32_t argmax(const float* logits, int32_t vocab) {
  return first_at(logits, vocab, highest(logits, vocab));
}

// A token as a number that rises as its logit falls, then with its id. There is no NaN.
inline uint64_t ranked(float logit, int32_t id) {
  logit += 0.0f;  // of the two zeros, one
  uint32_t u;
  __builtin_memcpy(&u, &logit, 4);
  const uint32_t falling = u >> 31 ? u : u ^ 0x7fffffffu;
  return static_cast<uint64_t>(falling) << 32 | static_cast<uint32_t>(id);
}

// By logit alone, keeping the order of equals: several times faster than comparing, for many.
inline void sort_by_digits(uint64_t* tokens, uint64_t* spare, size_t count) {
  constexpr int kDigit = 11;
  uint64_t *from = tokens, *to = spare;
  for (int shift = 32; shift < 64; shift += kDigit) {
    const auto digit = [shift](uint64_t token) { return token >> shift & ((1u << kDigit) - 1); };
    uint32_t places[(1 << kDigit) + 1] = {};
    for (size_t i = 0; i < count; ++i) ++places[digit(from[i]) + 1];
    for (int d = 0; d < 1 << kDigit; ++d) places[d + 1] += places[d];
    for (size_t i = 0; i < count; ++i) to[places[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  if (from != tokens) std::copy(from, from + count, tokens);
}

// What `draw` works in, so that only the first call asks for memory.
struct DrawScratch {
  std::vector<uint64_t> tokens, spare;
  std::vector<double> masses;
  void fit(size_t vocab) {
    if (tokens.size() >= vocab) return;
    tokens.resize(vocab);
    spare.resize(vocab);
    masses.resize(vocab);
  }
};

// The tokens that have weight, most likely first, as far down as somebody has asked.
class Ranking {
 public:
  Ranking(const float* logits, int32_t vocab, float peak, double temperature, DrawScratch& scratch)
      : logits_(logits),
        vocab_(vocab),
        peak_(splat(peak)),
        slope_(splat(static_cast<float>(std::min(kLog2E / temperature, double{FLT_MAX})))),
        scratch_(scratch) {
    scratch.fit(vocab);
    extend();
  }

  // The first rank at which `holds`, or one past the last.
  template <class Holds>
  size_t first(Holds holds) {
    for (size_t rank = 0;; ++rank) {
      if (rank == count_ && !extend()) return rank;
      if (holds(rank)) return rank;
    }
  }

  int32_t id(size_t rank) const { return static_cast<int32_t>(scratch_.tokens[known(rank)]); }
  // Of all tokens up to and with this one.
  double mass(size_t rank) const { return scratch_.masses[known(rank)]; }
  double weight(size_t rank) const { return rank == 0 ? mass(0) : mass(rank) - mass(rank - 1); }

  // Of the vocabulary.
  double total() const {
    typedef float Half __attribute__((vector_size(32)));
    typedef double Doubles __attribute__((vector_size(64)));
    Doubles low = {}, high = {};
    for_each_panel(logits_, vocab_, [&](int32_t, Vec some) {
      float weights[kLanes];
      store(weights, weigh(some));
      Half half;
      __builtin_memcpy(&half, weights, sizeof half);
      low += __builtin_convertvector(half, Doubles);
      __builtin_memcpy(&half, weights + 8, sizeof half);
      high += __builtin_convertvector(half, Doubles);
    });
    low += high;
    double sum = 0;
    for (int i = 0; i < 8; ++i) sum += low[i];
    return sum;
  }

  static constexpr double kUnit = 0x1p34;  // the weight of the most likely token

 private:
  static constexpr double kLog2E = 1.4426950408889634;
  // Exponents to base 2. Down to the first floor lie some tens of tokens of a language model's
  // vocabulary; below the last one, every weight rounds to 0.
  static constexpr float kFirstFloor = -6, kStep = 2, kLastFloor = -36;
  static constexpr size_t kFew = 256;  // to be sorted by comparing

  size_t known(size_t rank) const { return std::min(rank, count_ - 1); }
  // To base 2, of a token's probability over the most likely one's; NaN or -inf where it is 0.
  Vec exponent(Vec some) const { return (some - peak_) * slope_; }
  Vec weigh(Vec some) const { return round(exp2(exponent(some)) * splat(float{kUnit})); }

  // Lowers the floor until there are more tokens. False when there are none.
  bool extend() {
    const size_t before = count_;
    while (count_ == before && floor_ > kLastFloor) {
      const float ceiling = floor_;
      floor_ = ceiling > 0 ? kFirstFloor : ceiling - kStep;
      collect(splat(floor_), splat(ceiling));
    }
    uint64_t* added = scratch_.tokens.data() + before;
    if (count_ - before <= kFew) {
      std::sort(added, added + (count_ - before));
    } else {
      sort_by_digits(added, scratch_.spare.data(), count_ - before);
    }
    for (size_t rank = before; rank < count_; rank += kLanes) add_masses(rank);
    return count_ > before;
  }

  void collect(Vec floor, Vec ceiling) {
    for_each_panel(logits_, vocab_, [&](int32_t first, Vec some) {
      const Vec x = exponent(some);
      uint32_t between = bits(at_most(floor, x)) & bits(below(x, ceiling));
      for (; between != 0; between &= between - 1) {
        const int32_t id = first + __builtin_ctz(between);
        scratch_.tokens[count_++] = ranked(logits_[id], id);
      }
    });
  }

  // Of up to sixteen ranks.
  void add_masses(size_t rank) {
    const size_t some = std::min(count_ - rank, static_cast<size_t>(kLanes));
    float lanes[kLanes] = {};
    for (size_t i = 0; i < some; ++i) lanes[i] = logits_[id(rank + i)];
    store(lanes, weigh(load(lanes)));
    double sum = rank == 0 ? 0 : mass(rank - 1);
    for (size_t i = 0; i < some; ++i) scratch_.masses[rank + i] = sum += lanes[i];
  }

  const float* logits_;
  int32_t vocab_;
  Vec peak_, slope_;
  DrawScratch& scratch_;
  size_t count_ = 0;
  float floor_ = 1;  // above every exponent
};

inline int32_t draw(const float* logits, int32_t vocab, const DrawParams& params,
                    DrawScratch& scratch) {
  const float peak = highest(logits, vocab);
  // Without a finite peak nothing has a probability.
  if (params.temperature == 0 || !std::isfinite(peak)) return first_at(logits, vocab, peak);
  Ranking ranking(logits, vocab, peak, params.temperature, scratch);
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  size_t last = kAll;  // the last rank that is kept
  double mass = 0;
  if (0 < params.top_k && params.top_k < vocab) {
    const size_t kept = params.top_k;
    last = ranking.first([&](size_t rank) { return rank + 1 == kept; });
    mass = ranking.mass(last);
  } else {
    mass = ranking.total();
  }
  if (params.top_p < 1) {
    const double enough = params.top_p * mass;
    last = std::min(last, ranking.first([&](size_t rank) { return ranking.mass(rank) >= enough; }));
  }
  if (params.min_p > 0) {
    const double least = params.min_p * Ranking::kUnit;
    const size_t cut = ranking.first([&](size_t rank) { return ranking.weight(rank) < least; });
    last = std::min(last, std::max<size_t>(cut, 1) - 1);
  }
  if (last != kAll) mass = ranking.mass(last);
  // Less than the mass, since the number is less than 1: some rank reaches it.
  const double target = twinfleet::uniform(params.seed, params.choice, params.position) * mass;
  return ranking.id(ranking.first([&](size_t rank) { return ranking.mass(rank) > target; }));
}

}  // namespace TF_LEVEL
