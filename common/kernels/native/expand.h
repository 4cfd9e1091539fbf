// From a stored tile (16 rows of 32 weights) to bf16, as the matrix unit reads it: [16][32].
//
// A weight is the bf16 nearest to what its quantisation stands for, so a quantised file and a bf16
// file of the same values compute the same bits. The layouts are made by common/kernels/tiles.py.
#pragma once
#include "vec.h"

namespace TF_LEVEL {

constexpr int kTileColumns = 32;
constexpr int kTileWeights = kLanes * kTileColumns;

// Stored as it is read.
struct StoredBf16 {
  static constexpr size_t kBytes = 1024;
  static constexpr bool kExpands = false;
  static void expand(const uint8_t* tile, bf16* out) {
    for (int i = 0; i < kTileWeights; i += 32) {
      store(reinterpret_cast<float*>(out + i), load(reinterpret_cast<const float*>(tile) + i / 2));
    }
  }
};

// int8 codes [16][32], then a half-precision scale for each row.
struct StoredQ8 {
  static constexpr size_t kBytes = 512 + 32;
  static constexpr bool kExpands = true;
  static void expand(const uint8_t* tile, bf16* out) {
    const int8_t* codes = reinterpret_cast<const int8_t*>(tile);
    alignas(64) float scales[kLanes];
    store(scales, from_half(reinterpret_cast<const uint16_t*>(tile + 512)));
    for (int row = 0; row < kLanes; ++row) {
      const Vec scale = splat(scales[row]);
      store_narrow(out + row * 32, from_int8(codes + row * 32) * scale);
      store_narrow(out + row * 32 + 16, from_int8(codes + row * 32 + 16) * scale);
    }
  }
};

// Four-bit codes, then a half-precision scale and minimum for each row. A row has sixteen possible
// weights: they are computed once, and each code looks its own up. That is cheaper than computing
// 32 weights, and gives the same bits. Word k of group g holds the codes of rows 4g..4g+3 at k.
struct StoredQ4 {
  static constexpr size_t kBytes = 256 + 64;
  static constexpr bool kExpands = true;
  static void expand(const uint8_t* tile, bf16* out) {
    alignas(64) float scales[kLanes], minima[kLanes];
    store(scales, from_half(reinterpret_cast<const uint16_t*>(tile + 256)));
    store(minima, from_half(reinterpret_cast<const uint16_t*>(tile + 288)));
    alignas(64) static constexpr float kCodes[kLanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                         8, 9, 10, 11, 12, 13, 14, 15};
    const Vec codes = load(kCodes);
#ifdef __AVX512BW__
    // The lookup reads five bits of a word; the table holds everything twice, so the fifth, which
    // belongs to the next row's code, does not matter.
#define TF_ROW(row, words)                                                         \
  {                                                                                \
    const Vec weights = fma(codes, splat(scales[row]), splat(minima[row]));        \
    _mm512_storeu_si512(out + (row)*32,                                            \
                        _mm512_permutexvar_epi16(words, doubled(weights)));        \
  }
    for (int group = 0; group < 4; ++group) {
      const __m512i words = _mm512_loadu_si512(tile + 64 * group);
      TF_ROW(4 * group, words)
      TF_ROW(4 * group + 1, _mm512_srli_epi16(words, 4))
      TF_ROW(4 * group + 2, _mm512_srli_epi16(words, 8))
      TF_ROW(4 * group + 3, _mm512_srli_epi16(words, 12))
    }
#undef TF_ROW
#else
    for (int row = 0; row < kLanes; ++row) {
      alignas(32) bf16 table[kLanes];
      store_narrow(table, fma(codes, splat(scales[row]), splat(minima[row])));
      look_up(tile + 64 * (row / 4), 4 * (row % 4), table, out + row * 32);
    }
#endif
  }

 private:
#ifdef __AVX512BW__
  static __m512i doubled(Vec weights) {
#ifdef __AVX512BF16__
    return (__m512i)_mm512_cvtne2ps_pbh(weights.v, weights.v);
#else
    const __m256i once = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(weights), 16));
    return _mm512_broadcast_i64x4(once);
#endif
  }
#else
  // Bytes are looked up, so the table is split into low and high halves of its words.
  static void look_up(const uint8_t* words, int shift, const bf16* table, bf16* out) {
    const __m256i all = load_half(table, 0);
    const __m256i low_bytes = _mm256_and_si256(all, _mm256_set1_epi16(0xff));
    const __m256i high_bytes = _mm256_srli_epi16(all, 8);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(low_bytes, high_bytes), 0xd8);
    const __m256i low = _mm256_permute2x128_si256(packed, packed, 0x00);
    const __m256i high = _mm256_permute2x128_si256(packed, packed, 0x11);
    for (int half = 0; half < 2; ++half) {
      const __m256i shifted = _mm256_srl_epi16(load_half(words, half), _mm_cvtsi32_si128(shift));
      // The upper byte of each index has its top bit set, which looks up zero.
      const __m256i index = _mm256_or_si256(_mm256_and_si256(shifted, _mm256_set1_epi16(15)),
                                            _mm256_set1_epi16(static_cast<int16_t>(0x8000)));
      const __m256i result =
          _mm256_or_si256(_mm256_shuffle_epi8(low, index),
                          _mm256_slli_epi16(_mm256_shuffle_epi8(high, index), 8));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out) + half, result);
    }
  }
#endif
};

}  // namespace TF_LEVEL
