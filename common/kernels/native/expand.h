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

#ifdef __AVX512VBMI__
// Puts sixteen bytes from `first` on into the second bytes of sixteen floats.
struct BytePlaces {
  alignas(64) uint8_t of[64] = {};
  constexpr explicit BytePlaces(uint8_t first) {
    for (int i = 0; i < kLanes; ++i) of[4 * i + 1] = static_cast<uint8_t>(first + i);
  }
};
constexpr BytePlaces kLower{0}, kUpper{16};
#endif

// int8 codes [16][32], then a half-precision scale for each row.
struct StoredQ8 {
  static constexpr size_t kBytes = 512 + 32;
  static constexpr bool kExpands = true;
  static void expand(const uint8_t* tile, bf16* out) {
    alignas(64) float scales[kLanes];
    const Vec scale = from_half(reinterpret_cast<const uint16_t*>(tile + 512));
    store(scales, scale);
#ifdef __AVX512VBMI__
    // A code becomes a float without conversion: a byte of 2^15 + 128 + code. Scaled, less the scaled
    // 2^15 + 128, it is exact before the one rounding, since scales have eleven bits.
    alignas(64) float offsets[kLanes];
    store(offsets, scale * splat(-32896.0f));
    const __m256i* codes = reinterpret_cast<const __m256i*>(tile);
    const __m512i magic = _mm512_set1_epi32(0x47000000);
    const __m256i flip = _mm256_set1_epi8(-128);
    constexpr __mmask64 kSecondBytes = 0x2222222222222222;
    for (int row = 0; row < kLanes; ++row) {
      const __m512i raised = _mm512_castsi256_si512(_mm256_xor_si256(_mm256_loadu_si256(codes + row), flip));
      const auto sixteen = [&](const BytePlaces& places) {
        const __m512i place = _mm512_load_si512(places.of);
        const __m512i number = _mm512_mask_permutexvar_epi8(magic, kSecondBytes, place, raised);
        return fma({_mm512_castsi512_ps(number)}, splat(scales[row]), splat(offsets[row])).v;
      };
      const auto weights = _mm512_cvtne2ps_pbh(sixteen(kUpper), sixteen(kLower));
      _mm512_storeu_si512(out + row * 32, (__m512i)weights);
    }
#else
    const int8_t* codes = reinterpret_cast<const int8_t*>(tile);
    for (int row = 0; row < kLanes; ++row) {
      const Vec factor = splat(scales[row]);
      store_narrow(out + row * 32, from_int8(codes + row * 32) * factor);
      store_narrow(out + row * 32 + 16, from_int8(codes + row * 32 + 16) * factor);
    }
#endif
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
    const auto table = [&](int row) { return fma(codes, splat(scales[row]), splat(minima[row])); };
    const __m512i four_bits = _mm512_set1_epi16(15), second = _mm512_set1_epi16(16);
    // The lookup reads five bits of a word: the fifth chooses one of the two tables of a pair.
    constexpr int kAndOr = 0xea;
    for (int row = 0; row < kLanes; row += 4) {
      const __m512i words = _mm512_loadu_si512(tile + 16 * row);
      const __m512i words_4 = _mm512_srli_epi16(words, 4), words_8 = _mm512_srli_epi16(words, 8);
      const __m512i outer = pair(table(row + 3), table(row)), inner = pair(table(row + 1), table(row + 2));
      const __m512i index[4] = {_mm512_ternarylogic_epi32(words, four_bits, second, kAndOr),
                                _mm512_and_si512(words_4, four_bits),
                                _mm512_ternarylogic_epi32(words_8, four_bits, second, kAndOr),
                                _mm512_srli_epi16(words, 12)};
      _mm512_storeu_si512(out + row * 32, _mm512_permutexvar_epi16(index[0], outer));
      _mm512_storeu_si512(out + row * 32 + 32, _mm512_permutexvar_epi16(index[1], inner));
      _mm512_storeu_si512(out + row * 32 + 64, _mm512_permutexvar_epi16(index[2], inner));
      _mm512_storeu_si512(out + row * 32 + 96, _mm512_permutexvar_epi16(index[3], outer));
    }
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
  static __m512i pair(Vec first, Vec second) {
#ifdef __AVX512BF16__
    return (__m512i)_mm512_cvtne2ps_pbh(second.v, first.v);
#else
    const __m256i low = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(first), 16));
    const __m256i high = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(second), 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
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
