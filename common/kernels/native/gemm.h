// A packed matrix times the panels of a step.
//
// Strips go in pairs, and threads claim pairs. With one or two panels weights are expanded as they
// stream by; with more, a pair is expanded once and meets all panels that fit a core's cache.
#pragma once
#include <algorithm>

#include "model.h"
#include "team.h"
#include "tiles.h"

namespace TF_LEVEL {

using twinfleet::Matrix;
using twinfleet::Stored;
using twinfleet::Work;

constexpr size_t kPanelBytesInCache = 768 << 10;  // packed panels that meet a pair of strips together

// The inputs of a product: packed panels, `panel_bytes` apart.
struct Panels {
  const uint8_t* data;
  size_t panel_bytes;
  int count;
  int at_once() const { return std::max(2, static_cast<int>(kPanelBytesInCache / panel_bytes) & ~1); }
  int passes() const { return (count + at_once() - 1) / at_once(); }
};

// visit(pair, first panel, one past the last) for what this thread claims.
template <class Visit>
void claim_pairs(const Matrix& w, const Panels& x, Work& work, Visit&& visit) {
  const int pairs = w.strips() / 2, units = pairs * x.passes();
  for (Work::Range range = work.claim(units); range.first < range.last; range = work.claim(units)) {
    for (int unit = range.first; unit < range.last; ++unit) {
      const int begin = unit / pairs * x.at_once();
      visit(unit % pairs, begin, std::min(x.count, begin + x.at_once()));
    }
  }
}

// bf16: [pair of columns][16 lanes][2]. int8: a high and a low plane [quad of columns][16][4], of
// 16-bit numbers that stand for value / scale; then the scales of the lanes.
inline size_t packed_bytes(Stored stored, int columns) {
  const int bytes = stored == Stored::kInt8 ? 2 * twinfleet::round_up(columns, 64) + 4
                                            : 2 * twinfleet::round_up(columns, 32);
  return static_cast<size_t>(bytes) * kLanes;
}

// done(pair, panel, c): c holds strips 2 * pair and 2 * pair + 1 of that panel, [32 rows][16 lanes].
template <class Kind, class Done>
void multiply_stored(const Matrix& w, Panels x, Work& work, bf16* scratch, Done&& done) {
  alignas(64) float c[4 * kTile];
  const int k_tiles = w.k_tiles();
  const bool streams = x.count <= 2;
  claim_pairs(w, x, work, [&](int pair, int begin, int end) {
    const uint8_t* weights = w.tiles + Kind::kBytes * k_tiles * 2 * pair;
    if (Kind::kExpands && !streams) {
      for (int t = 0; t < 2 * k_tiles; ++t) {
        Kind::expand(weights + t * Kind::kBytes, scratch + t * kTileWeights);
      }
      weights = reinterpret_cast<const uint8_t*>(scratch);
    }
    for (int p = begin; p < end; p += 2) {
      const bf16* panels[2] = {reinterpret_cast<const bf16*>(x.data + p * x.panel_bytes),
                               reinterpret_cast<const bf16*>(x.data + (p + 1) * x.panel_bytes)};
      const bool two = p + 1 < end;
      if (streams) {
        two ? strip_products<Kind, 2>(weights, panels, k_tiles, c)
            : strip_products<Kind, 1>(weights, panels, k_tiles, c);
      } else {
        two ? strip_products<StoredBf16, 2>(weights, panels, k_tiles, c)
            : strip_products<StoredBf16, 1>(weights, panels, k_tiles, c);
      }
      done(pair, p, c);
      if (two) done(pair, p + 1, c + 2 * kTile);
    }
  });
}

template <class Done>
void multiply_int8(const Matrix& w, Panels x, Work& work, Done&& done) {
  alignas(64) int32_t high[2 * kTile], low[2 * kTile];
  alignas(64) float c[2 * kTile];
  const int k_tiles = w.k_tiles();
  const size_t plane = static_cast<size_t>(k_tiles) * 1024;
  const int8_t* tiles = reinterpret_cast<const int8_t*>(w.tiles);
  claim_pairs(w, x, work, [&](int pair, int begin, int end) {
    for (int p = begin; p < end; ++p) {
      const int8_t* panel = reinterpret_cast<const int8_t*>(x.data + p * x.panel_bytes);
      strip_products_int8(tiles + 2 * pair * plane, panel, panel + plane, k_tiles, high, low);
      const Vec lanes = load(reinterpret_cast<const float*>(panel + 2 * plane));
      for (int row = 0; row < 32; ++row) {
        const Vec sum = fma(from_int(high + row * kLanes), splat(256.0f), from_int(low + row * kLanes));
        store(c + row * kLanes, sum * splat(w.scales[pair * 32 + row]) * lanes);
      }
      done(pair, p, c);
    }
  });
}

template <class Done>
void multiply(const Matrix& w, Panels x, Work& work, bf16* scratch, Done&& done) {
  const auto finish = [&](int pair, int panel, float* c) {
    if (w.bias != nullptr) {
      for (int row = 0; row < 32; ++row) {
        store(c + row * kLanes, load(c + row * kLanes) + splat(w.bias[pair * 32 + row]));
      }
    }
    done(pair, panel, c);
  };
  switch (w.stored) {
    case Stored::kBf16:
      return multiply_stored<StoredBf16>(w, x, work, scratch, finish);
    case Stored::kQ8:
      return multiply_stored<StoredQ8>(w, x, work, scratch, finish);
    case Stored::kQ4:
      return multiply_stored<StoredQ4>(w, x, work, scratch, finish);
    case Stored::kInt8:
      return multiply_int8(w, x, work, finish);
  }
}

// One row of a matrix as fp32: what an embedding is.
inline void read_row(const Matrix& w, int row, float* out) {
  alignas(64) bf16 expanded[kTileWeights];
  const int k_tiles = w.k_tiles(), lane = row % kLanes;
  for (int k = 0; k < k_tiles; ++k) {
    const size_t index = (static_cast<size_t>(row / 32) * k_tiles + k) * 2 + row / kLanes % 2;
    const uint8_t* tile = w.tiles + index * w.tile_bytes();
    const int first = k * w.tile_columns(), count = std::min(w.tile_columns(), w.columns - first);
    if (w.stored == Stored::kInt8) {
      const int8_t* codes = reinterpret_cast<const int8_t*>(tile) + lane * 64;
      for (int i = 0; i < count; ++i) out[first + i] = static_cast<float>(codes[i]) * w.scales[row];
      continue;
    }
    if (w.stored == Stored::kBf16) StoredBf16::expand(tile, expanded);
    if (w.stored == Stored::kQ8) StoredQ8::expand(tile, expanded);
    if (w.stored == Stored::kQ4) StoredQ4::expand(tile, expanded);
    for (int i = 0; i < count; ++i) out[first + i] = widen(expanded[lane * 32 + i]);
  }
}

}  // namespace TF_LEVEL
