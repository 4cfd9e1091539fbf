// A packed matrix times the panels of a step.
//
// Strips go in pairs, and threads claim pairs. With one or two panels weights are expanded as they
// stream by; with more, a pair is expanded once and meets all panels that fit a core's second cache,
// as many of its columns at a time as fit the first.
#pragma once
#include <algorithm>

#include "blocks.h"
#include "model.h"
#include "team.h"

namespace TF_LEVEL {

using twinfleet::Matrix;
using twinfleet::Stored;
using twinfleet::Work;

constexpr size_t kPanelBytesInCache = 768 << 10;  // packed panels that meet a pair of strips together
constexpr int kTilesInCache = 18;                 // of each strip of a pair: 36 KB

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

// bf16: [pair of columns][16 lanes][2]. int8: Inputs of each 64 columns, then how many tokens there are.
inline size_t packed_bytes(Stored stored, int columns) {
  if (!twinfleet::takes_int8(stored)) return static_cast<size_t>(twinfleet::round_up(columns, 32)) * 2 * kLanes;
  return twinfleet::round_up(columns, 64) / 64 * sizeof(Inputs) + 64;
}

// What a thread needs to multiply a matrix of so many columns: a pair of strips, and its sums with
// the panels it meets together.
inline size_t scratch_bytes(int columns) {
  const size_t tiles = twinfleet::round_up(columns, kTileColumns) / kTileColumns;
  const size_t panels = tiles > kTilesInCache ? kPanelBytesInCache / (kTilesInCache * 1024) + 2 : 2;
  return tiles * 2 * kTileWeights * sizeof(bf16) + panels * 2 * kTile * sizeof(float);
}

// done(pair, panel, c): c holds strips 2 * pair and 2 * pair + 1 of that panel, [32 rows][16 lanes].
template <class Kind, class Done>
void multiply_streaming(const Matrix& w, Panels x, Work& work, Done&& done) {
  alignas(64) float c[4 * kTile];
  const int k_tiles = w.k_tiles();
  const bf16* panels[2] = {reinterpret_cast<const bf16*>(x.data),
                           reinterpret_cast<const bf16*>(x.data + x.panel_bytes)};
  claim_pairs(w, x, work, [&](int pair, int, int) {
    const uint8_t* weights = w.tiles + Kind::kBytes * k_tiles * 2 * pair;
    x.count == 2 ? strip_products<Kind, 2>(weights, panels, k_tiles, c)
                 : strip_products<Kind, 1>(weights, panels, k_tiles, c);
    for (int p = 0; p < x.count; ++p) done(pair, p, c + p * 2 * kTile);
  });
}

template <class Kind, class Done>
void multiply_stored(const Matrix& w, Panels x, Work& work, bf16* scratch, Done&& done) {
  if (x.count <= 2) return multiply_streaming<Kind>(w, x, work, done);
  const int k_tiles = w.k_tiles(), at_once = k_tiles > kTilesInCache ? x.at_once() : 2;
  float* sums = reinterpret_cast<float*>(scratch + k_tiles * 2 * kTileWeights);
  claim_pairs(w, x, work, [&](int pair, int begin, int end) {
    const uint8_t* stored = w.tiles + Kind::kBytes * k_tiles * 2 * pair;
    const bf16* weights = reinterpret_cast<const bf16*>(stored);
    if (Kind::kExpands) {
      for (int t = 0; t < 2 * k_tiles; ++t) Kind::expand(stored + t * Kind::kBytes, scratch + t * kTileWeights);
      weights = scratch;
    }
    for (int from = begin; from < end; from += at_once) {
      const int to = std::min(end, from + at_once);
      for (int k = 0; k < k_tiles; k += kTilesInCache) {
        const int tiles = std::min(kTilesInCache, k_tiles - k);
        for (int p = from; p < to; p += 2) {
          const bf16* first = reinterpret_cast<const bf16*>(x.data + p * x.panel_bytes) + k * kTileWeights;
          const bf16* panels[2] = {first, first + x.panel_bytes / sizeof(bf16)};
          const bf16* pair_tiles = weights + k * 2 * kTileWeights;
          float* c = sums + (p - from) * 2 * kTile;
          p + 1 < to ? add_products<2>(pair_tiles, panels, tiles, k == 0, c)
                     : add_products<1>(pair_tiles, panels, tiles, k == 0, c);
        }
      }
      for (int p = from; p < to; ++p) done(pair, p, sums + (p - from) * 2 * kTile);
    }
  });
}

template <class Codes, class Done>
void multiply_blocks(const Matrix& w, Panels x, Work& work, Done&& done) {
  alignas(64) float by_token[2 * kTile], c[2 * kTile];
  const int k_tiles = w.k_tiles();
  claim_pairs(w, x, work, [&](int pair, int begin, int end) {
    const uint8_t* tiles = w.tiles + Codes::kBytes * k_tiles * 2 * pair;
    for (int p = begin; p < end; ++p) {
      const Inputs* inputs = reinterpret_cast<const Inputs*>(x.data + p * x.panel_bytes);
      const int tokens = *reinterpret_cast<const int32_t*>(inputs + k_tiles);
      block_products<Codes>(tiles, inputs, tokens, k_tiles, by_token);
      if (tokens < kLanes) std::fill(c, c + 2 * kTile, 0.0f);
      for (int i = 0; i < 2 * kLanes; ++i) {
        for (int t = 0; t < tokens; ++t) c[i * kLanes + t] = by_token[i / kLanes * kTile + t * kLanes + i % kLanes];
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
    case Stored::kQuads4:
      return multiply_blocks<Codes4>(w, x, work, finish);
    case Stored::kQuads8:
      return multiply_blocks<Codes8>(w, x, work, finish);
  }
}

// Row `lane` of a tile, as fp32.
template <class Kind>
void read_bf16(const uint8_t* tile, int lane, float* out) {
  alignas(64) bf16 expanded[kTileWeights];
  Kind::expand(tile, expanded);
  for (int i = 0; i < kTileColumns; ++i) out[i] = widen(expanded[lane * kTileColumns + i]);
}

template <class Codes>
void read_codes(const uint8_t* tile, int lane, float* out) {
  alignas(64) uint8_t unpacked[kCodesBytes];
  const uint8_t* codes = Codes::codes(tile, unpacked);
  for (int i = 0; i < 2 * kBlock; ++i) {
    alignas(64) float values[kLanes];
    const Vec code = splat(codes[i / 4 * 64 + lane * 4 + i % 4]);
    store(values, fma(code, Codes::scale(tile, i / kBlock), Codes::minimum(tile, i / kBlock)));
    out[i] = values[lane];
  }
}

// One row of a matrix as fp32: what an embedding is.
inline void read_row(const Matrix& w, int row, float* out) {
  float values[64];
  const int k_tiles = w.k_tiles(), lane = row % kLanes, width = w.tile_columns();
  for (int k = 0; k < k_tiles; ++k) {
    const size_t index = (static_cast<size_t>(row / 32) * k_tiles + k) * 2 + row / kLanes % 2;
    const uint8_t* tile = w.tiles + index * w.tile_bytes();
    if (w.stored == Stored::kBf16) read_bf16<StoredBf16>(tile, lane, values);
    if (w.stored == Stored::kQ8) read_bf16<StoredQ8>(tile, lane, values);
    if (w.stored == Stored::kQ4) read_bf16<StoredQ4>(tile, lane, values);
    if (w.stored == Stored::kQuads4) read_codes<Codes4>(tile, lane, values);
    if (w.stored == Stored::kQuads8) read_codes<Codes8>(tile, lane, values);
    std::copy(values, values + std::min(width, w.columns - k * width), out + k * width);
  }
}

}  // namespace TF_LEVEL
