// Tile products without a matrix unit, bit for bit what the unit gives.
#pragma once

namespace TF_LEVEL {

class MatrixUnit {
 public:
  MatrixUnit() : control_(_mm_getcsr()) { _mm_setcsr(control_ | 0x8040); }
  ~MatrixUnit() { _mm_setcsr(control_); }

 private:
  const unsigned control_;
};

#ifdef __AVX512F__
constexpr int kRowsAtOnce = 8;  // two sums each, in 32 registers
#else
constexpr int kRowsAtOnce = 2;  // in 16 registers of half a panel
#endif

// c += A B over one tile of 32 columns. `a` is A in fp32, rows `stride` floats apart.
inline void multiply_tile(const float* a, size_t stride, const bf16* b, float* c) {
  for (int first = 0; first < kLanes; first += kRowsAtOnce) {
    Vec even[kRowsAtOnce], odd[kRowsAtOnce];
    for (int r = 0; r < kRowsAtOnce; ++r) even[r] = odd[r] = splat(0.0f);
    for (int pair = 0; pair < kLanes; ++pair) {
      const Pairs both = load_pairs(b + pair * 32);
      const Vec b_even = even_of(both), b_odd = odd_of(both);
#pragma GCC unroll 8
      for (int r = 0; r < kRowsAtOnce; ++r) {
        const float* weights = a + (first + r) * stride + 2 * pair;
        even[r] = fma(splat(weights[0]), b_even, even[r]);
        odd[r] = fma(splat(weights[1]), b_odd, odd[r]);
      }
    }
    for (int r = 0; r < kRowsAtOnce; ++r) {
      float* sum = c + (first + r) * kLanes;
      store(sum, load(sum) + (even[r] + odd[r]));
    }
  }
}

inline void widen_rows(const bf16* rows, size_t stride, float* out) {
  for (int r = 0; r < kLanes; ++r) {
    const bf16* row = reinterpret_cast<const bf16*>(reinterpret_cast<const char*>(rows) + r * stride);
    for (int k = 0; k < kTileColumns; ++k) out[r * kTileColumns + k] = widen(row[k]);
  }
}

inline void clear(float* c, int count) {
  for (int i = 0; i < count; i += kLanes) store(c + i, splat(0.0f));
}

template <int T, int U>
inline void tile_products(const Operand* operands, int count, size_t b_next, bool first, float* c,
                          size_t c_next) {
  alignas(64) float wide[kTileWeights];
  for (int u = 0; first && u < U; ++u) clear(c + u * c_next, T * kTile);
  for (int i = 0; i < count; ++i) {
    for (int t = 0; t < T; ++t) {
      const char* a = reinterpret_cast<const char*>(operands[i].a) + t * operands[i].next;
      widen_rows(reinterpret_cast<const bf16*>(a), operands[i].stride, wide);
      for (int u = 0; u < U; ++u) {
        multiply_tile(wide, kTileColumns, operands[i].b + u * b_next, c + u * c_next + t * kTile);
      }
    }
  }
}

template <class Stored, int P>
inline void strip_products(const uint8_t* pair, const bf16* const panels[2], int k_tiles, float* c) {
  alignas(64) bf16 expanded[kTileWeights];
  alignas(64) float wide[kTileWeights];
  clear(c, P * 2 * kTile);
  for (int k = 0; k < k_tiles; ++k) {
    for (int s = 0; s < 2; ++s) {
      Stored::expand(pair + (2 * k + s) * Stored::kBytes, expanded);
      widen_rows(expanded, 64, wide);
      for (int p = 0; p < P; ++p) {
        multiply_tile(wide, kTileColumns, panels[p] + k * kTileWeights, c + (2 * p + s) * kTile);
      }
    }
  }
}

template <int P>
inline void add_products(const bf16* pair, const bf16* const panels[2], int k_tiles, bool first, float* c) {
  alignas(64) float wide[kTileWeights];
  if (first) clear(c, P * 2 * kTile);
  for (int t = 0; t < 2 * k_tiles; ++t) {
    widen_rows(pair + t * kTileWeights, 64, wide);
    for (int p = 0; p < P; ++p) {
      multiply_tile(wide, kTileColumns, panels[p] + t / 2 * kTileWeights, c + (2 * p + t % 2) * kTile);
    }
  }
}

// Vectors make the sums of all tokens there can be, so the second is never called.
constexpr int kFewTokens = kLanes;
inline void many_block_sums(const uint8_t* const[2], const int8_t*, int32_t*) {}

}  // namespace TF_LEVEL
