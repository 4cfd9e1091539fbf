// The products of the int8 arithmetic: codes of eight bits at most times int8 inputs.
//
// A block is 32 columns. Within it a sum of codes times inputs is exact, so its order does not
// matter; sums of blocks are scaled and added in fp32, in order. An input is scale * number, a weight
// is scale * code + minimum, so a block adds (sum * weight scale) * input scale, and then
// minimum * (input scale * sum of the numbers). Here a lane is a row of weights: so a step of few
// tokens does little, and a token's result does not depend on how many there are.
#pragma once
#include "tiles.h"

namespace TF_LEVEL {

constexpr int kBlock = 32;         // columns with a scale of their own
constexpr int kCodesBytes = 1024;  // of two blocks of 16 rows: [16 quads of columns][16 rows][4]

inline Vec sixteen_halves(const uint8_t* p) { return from_half(reinterpret_cast<const uint16_t*>(p)); }

// Of 16 tokens and two blocks. Numbers are in place for the matrix unit: [block][token][64 columns],
// zero where the other block's columns are.
struct Inputs {
  int8_t numbers[2][kLanes][2 * kBlock];
  float scales[2][kLanes], sums[2][kLanes];
};

typedef uint8_t Line __attribute__((vector_size(64), aligned(1)));

// A byte holds two codes: the lower half is of the first block, the upper one of the second.
struct Codes4 {
  static constexpr size_t kBytes = kCodesBytes / 2 + 128;
  static const uint8_t* codes(const uint8_t* tile, uint8_t* out) {
    const Line* both = reinterpret_cast<const Line*>(tile);
    for (int i = 0; i < 8; ++i) {
      reinterpret_cast<Line*>(out)[i] = both[i] & 15;
      reinterpret_cast<Line*>(out)[8 + i] = both[i] >> 4;
    }
    return out;
  }
  static Vec scale(const uint8_t* tile, int block) { return sixteen_halves(tile + 512 + 32 * block); }
  static Vec minimum(const uint8_t* tile, int block) { return sixteen_halves(tile + 576 + 32 * block); }
};

// A code is 128 more than what its scale multiplies.
struct Codes8 {
  static constexpr size_t kBytes = kCodesBytes + 64;
  static const uint8_t* codes(const uint8_t* tile, uint8_t*) { return tile; }
  static Vec scale(const uint8_t* tile, int block) { return sixteen_halves(tile + 1024 + 32 * block); }
  static Vec minimum(const uint8_t* tile, int block) { return scale(tile, block) * splat(-128.0f); }
};

// out[row] = sum over a block of codes times the numbers of one token.
inline void block_sum(const uint8_t* codes, const int8_t* numbers, int32_t* out) {
  Sums sums = no_sums();
  for (int quad = 0; quad < kBlock / 4; ++quad) {
    int32_t four;
    __builtin_memcpy(&four, numbers + 4 * quad, 4);
    sums = add_quads(sums, codes + quad * 64, four);
  }
  store_sums(out, sums);
}

// c[strip][token][16 rows] of a pair of strips, for the tokens there are.
template <class Codes>
inline void block_products(const uint8_t* pair, const Inputs* inputs, int tokens, int k_tiles, float* c) {
  constexpr int kAhead = 16;
  alignas(64) uint8_t unpacked[2][kCodesBytes];
  alignas(64) int32_t sums[2][2][kTile];  // [strip][block][token][row]
  for (int s = 0; s < 2; ++s) {
    for (int t = 0; t < tokens; ++t) store(c + s * kTile + t * kLanes, splat(0.0f));
  }
  for (int k = 0; k < k_tiles; ++k, ++inputs) {
    const uint8_t* tiles[2] = {pair + 2 * k * Codes::kBytes, pair + (2 * k + 1) * Codes::kBytes};
    prefetch(tiles[0] + 2 * kAhead * Codes::kBytes, 2 * Codes::kBytes);
    const uint8_t* codes[2] = {Codes::codes(tiles[0], unpacked[0]), Codes::codes(tiles[1], unpacked[1])};
    if (tokens > kFewTokens) {
      many_block_sums(codes, inputs->numbers[0][0], sums[0][0]);
    } else {
      for (int i = 0; i < 4 * tokens; ++i) {
        const int s = i % 2, b = i / 2 % 2, t = i / 4;
        block_sum(codes[s] + b * kCodesBytes / 2, inputs->numbers[b][t] + b * kBlock, sums[s][b] + t * kLanes);
      }
    }
    for (int s = 0; s < 2; ++s) {
      for (int b = 0; b < 2; ++b) {
        const Vec scale = Codes::scale(tiles[s], b), minimum = Codes::minimum(tiles[s], b);
        for (int t = 0; t < tokens; ++t) {
          float* sum = c + s * kTile + t * kLanes;
          const Vec scaled = from_int(sums[s][b] + t * kLanes) * scale;
          const Vec added = fma(scaled, splat(inputs->scales[b][t]), load(sum));
          store(sum, fma(minimum, splat(inputs->sums[b][t]), added));
        }
      }
    }
  }
}

}  // namespace TF_LEVEL
