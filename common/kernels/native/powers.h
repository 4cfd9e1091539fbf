// Powers of two as bf16: what the weights of attention are. bf16 keeps so few bits that they are found
// in a table.
#pragma once
#include <cmath>

#include "vec.h"

namespace TF_LEVEL {

// The seven bits behind the point of 2^(i / 128), which are what bf16 keeps of it.
struct PowerTable {
  alignas(64) int32_t words[128];
  alignas(64) uint8_t bytes[128];
  PowerTable() {
    for (int i = 0; i < 128; ++i) {
      words[i] = static_cast<int32_t>(std::lround(128.0 * (std::exp2(i / 128.0) - 1.0)));
      bytes[i] = static_cast<uint8_t>(words[i]);
    }
  }
};
inline const PowerTable kPowers;

// The powers of whole numbers that stand in the low bits of each lane: exponent and place in the table.
#ifdef __AVX512VBMI__

struct PowerLookup {
  const __m512i low, high;
  explicit PowerLookup(const PowerTable& table)
      : low(_mm512_load_si512(table.bytes)), high(_mm512_load_si512(table.bytes + 64)) {}
  Pairs operator()(Vec even, Vec odd) const {
    const __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(odd.v), 16);
    const __m512i both = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_castps_si512(even.v), shifted);
    const __m512i found = _mm512_permutex2var_epi8(low, both, high);
    return {_mm512_ternarylogic_epi32(_mm512_set1_epi16(127), found, both, 0xca)};  // 127 ? found : both
  }
};

#elif defined(__AVX512F__)

struct PowerLookup {
  const int32_t* const words;
  explicit PowerLookup(const PowerTable& table) : words(table.words) {}
  __m512i power(Vec a) const {
    const __m512i x = _mm512_castps_si512(a.v), part = _mm512_and_si512(x, _mm512_set1_epi32(127));
    return _mm512_add_epi32(_mm512_sub_epi32(x, part), _mm512_i32gather_epi32(part, words, 4));
  }
  Pairs operator()(Vec even, Vec odd) const {
    return {_mm512_mask_blend_epi16(0xaaaaaaaa, power(even), _mm512_slli_epi32(power(odd), 16))};
  }
};

#else

struct PowerLookup {
  const int32_t* const words;
  explicit PowerLookup(const PowerTable& table) : words(table.words) {}
  __m256i power(__m256 a) const {
    const __m256i x = _mm256_castps_si256(a), part = _mm256_and_si256(x, _mm256_set1_epi32(127));
    return _mm256_add_epi32(_mm256_sub_epi32(x, part), _mm256_i32gather_epi32(words, part, 4));
  }
  __m256i pairs(__m256 even, __m256 odd) const {
    return _mm256_blend_epi16(power(even), _mm256_slli_epi32(power(odd), 16), 0xaa);
  }
  Pairs operator()(Vec even, Vec odd) const { return {pairs(even.lo, odd.lo), pairs(even.hi, odd.hi)}; }
};

#endif

// 2^(x / 128) as pairs of bf16, for x below 128 * 128: x counts to its nearest whole number, which is
// as near as bf16 can tell two powers apart (0.66 % at most, together with its rounding). Adding the
// bias leaves the number in the low bits, as exponent and place in the table. 0 from -127 * 128 down.
constexpr float kPowerSteps = 128.0f;
inline Pairs powers(const PowerLookup& lookup, Vec even, Vec odd) {
  const Vec lowest = splat(-127.0f * kPowerSteps), bias = splat(kWholePart + 127.0f * kPowerSteps);
  return lookup(max(even, lowest) + bias, max(odd, lowest) + bias);
}

}  // namespace TF_LEVEL
