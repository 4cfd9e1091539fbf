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
      const Vec b_even = even_of(b + pair * 32), b_odd = odd_of(b + pair * 32);
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
inline void tile_products(const Operand* operands, int count, size_t b_next, float* c, size_t c_next) {
  alignas(64) float wide[kTileWeights];
  for (int u = 0; u < U; ++u) clear(c + u * c_next, T * kTile);
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

// Four columns of 16 lanes as two halves of 16-bit numbers: columns 0 and 2, and 1 and 3.
#ifdef __AVX512F__
struct Quads {
  __m512i even, odd;
};
struct Sums {
  __m512i v;
};
inline Quads split(__m512i bytes) {
  return {_mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8), _mm512_srai_epi16(bytes, 8)};
}
inline Quads quads_of(const int8_t* lanes) { return split(_mm512_loadu_si512(lanes)); }
inline Quads quads_splat(int32_t weights) { return split(_mm512_set1_epi32(weights)); }
inline Sums no_sums() { return {_mm512_setzero_si512()}; }
inline Sums add_products(Sums sums, const Quads& a, const Quads& b) {
#ifdef __AVX512VNNI__
  return {_mm512_dpwssd_epi32(_mm512_dpwssd_epi32(sums.v, a.even, b.even), a.odd, b.odd)};
#else
  const __m512i even = _mm512_madd_epi16(a.even, b.even), odd = _mm512_madd_epi16(a.odd, b.odd);
  return {_mm512_add_epi32(sums.v, _mm512_add_epi32(even, odd))};
#endif
}
inline void store_sums(int32_t* out, Sums sums) { _mm512_storeu_si512(out, sums.v); }
#else
struct Quads {
  __m256i even[2], odd[2];
};
struct Sums {
  __m256i v[2];
};
inline Quads split(__m256i lo, __m256i hi) {
  return {{_mm256_srai_epi16(_mm256_slli_epi16(lo, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(hi, 8), 8)},
          {_mm256_srai_epi16(lo, 8), _mm256_srai_epi16(hi, 8)}};
}
inline Quads quads_of(const int8_t* lanes) { return split(load_half(lanes, 0), load_half(lanes, 1)); }
inline Quads quads_splat(int32_t weights) {
  return split(_mm256_set1_epi32(weights), _mm256_set1_epi32(weights));
}
inline Sums no_sums() { return {{_mm256_setzero_si256(), _mm256_setzero_si256()}}; }
inline Sums add_products(Sums sums, const Quads& a, const Quads& b) {
  for (int half = 0; half < 2; ++half) {
    const __m256i even = _mm256_madd_epi16(a.even[half], b.even[half]);
    const __m256i odd = _mm256_madd_epi16(a.odd[half], b.odd[half]);
    sums.v[half] = _mm256_add_epi32(sums.v[half], _mm256_add_epi32(even, odd));
  }
  return sums;
}
inline void store_sums(int32_t* out, Sums sums) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), sums.v[0]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out) + 1, sums.v[1]);
}
#endif

inline void strip_products_int8(const int8_t* pair, const int8_t* high_plane, const int8_t* low_plane,
                                int k_tiles, int32_t* high, int32_t* low) {
  constexpr int kRows = 4;
  for (int row = 0; row < 2 * kLanes; row += kRows) {
    const int8_t* weights = pair + row / kLanes * 1024 + row % kLanes * 64;
    Sums high_sums[kRows], low_sums[kRows];
    for (int r = 0; r < kRows; ++r) high_sums[r] = low_sums[r] = no_sums();
    for (int quad = 0; quad < k_tiles * kLanes; ++quad) {
      const Quads x_high = quads_of(high_plane + quad * 64), x_low = quads_of(low_plane + quad * 64);
      for (int r = 0; r < kRows; ++r) {
        int32_t four;
        __builtin_memcpy(&four, weights + quad / kLanes * 2048 + r * 64 + quad % kLanes * 4, 4);
        const Quads w = quads_splat(four);
        high_sums[r] = add_products(high_sums[r], w, x_high);
        low_sums[r] = add_products(low_sums[r], w, x_low);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      store_sums(high + (row + r) * kLanes, high_sums[r]);
      store_sums(low + (row + r) * kLanes, low_sums[r]);
    }
  }
}

}  // namespace TF_LEVEL
