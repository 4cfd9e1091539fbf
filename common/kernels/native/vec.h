// Sixteen floats, one for each token of a panel, on AVX-512 or as two halves on AVX2.
//
// Every operation is correctly rounded and acts on one lane, so both widths give the same bits, and
// a lane never depends on its neighbours. Contraction is off (see the build's flags): where a
// product is fused with a sum, the source says `fma`.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace TF_LEVEL {

constexpr int kLanes = 16;
using bf16 = uint16_t;

#ifdef __AVX512F__

struct Vec {
  __m512 v;
};
struct Mask {
  __mmask16 m;
};

inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
inline Vec splat(float x) { return {_mm512_set1_ps(x)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
inline Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
inline Vec round(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT)}; }
inline Mask at_most(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
inline Mask below(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Vec select(Mask m, Vec a, Vec b) { return {_mm512_mask_blend_ps(m.m, b.v, a.v)}; }
inline uint32_t bits(Mask m) { return m.m; }

// a * 2^n, where n is a whole number that stands in the low bits of `low`; the result must be normal.
inline Vec scale(Vec a, Vec low) {
  const __m512i shift = _mm512_slli_epi32(_mm512_castps_si512(low.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), shift))};
}
inline Vec guess_reciprocal(Vec x) {
  const __m512i magic = _mm512_set1_epi32(0x7ef33400);
  return {_mm512_castsi512_ps(_mm512_sub_epi32(magic, _mm512_castps_si512(x.v)))};
}

inline Vec from_int(const int32_t* p) { return {_mm512_cvtepi32_ps(_mm512_loadu_si512(p))}; }
inline void store_int(int32_t* p, Vec a) { _mm512_storeu_si512(p, _mm512_cvtps_epi32(a.v)); }
inline Vec from_int8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
inline Vec from_half(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}

// Sums of products in whole numbers, one a lane. Of 64 bytes each four are a lane's.
struct Sums {
  __m512i v;
};
inline Sums no_sums() { return {_mm512_setzero_si512()}; }
inline void store_sums(int32_t* out, Sums sums) { _mm512_storeu_si512(out, sums.v); }
inline Sums add_quads(Sums sums, const uint8_t* quads, int32_t four) {
  const __m512i a = _mm512_loadu_si512(quads), b = _mm512_set1_epi32(four);
#ifdef __AVX512VNNI__
  return {_mm512_dpbusd_epi32(sums.v, a, b)};
#else
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(a, _mm512_set1_epi16(255)),
                                         _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(b, 8));
  return {_mm512_add_epi32(sums.v, _mm512_add_epi32(even, odd))};
#endif
}

// 16 pairs of bf16: (even, odd) of lane 0, lane 1, ...
struct Pairs {
  __m512i v;
};
inline Pairs load_pairs(const bf16* p) { return {_mm512_loadu_si512(p)}; }
inline void store(bf16* p, Pairs a) { _mm512_storeu_si512(p, a.v); }
inline Pairs only(Mask m, Pairs a) { return {_mm512_maskz_mov_epi32(m.m, a.v)}; }
inline Vec even_of(Pairs a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16))}; }
inline Vec odd_of(Pairs a) {
  return {_mm512_castsi512_ps(_mm512_and_si512(a.v, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}
#ifdef __AVX512BF16__

inline void store_pairs(bf16* p, Vec even, Vec odd) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd.v, even.v);
  _mm512_storeu_si512(p, _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both));
}
inline void store_narrow(bf16* p, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(a.v));
}

#else

// To nearest even, in the upper half of each lane's bits.
inline __m512i rounded(Vec a) {
  const __m512i u = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
}
inline void store_pairs(bf16* p, Vec even, Vec odd) {
  const __m512i low = _mm512_srli_epi32(rounded(even), 16);
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  _mm512_storeu_si512(p, _mm512_or_si512(_mm512_and_si512(high, rounded(odd)), low));
}
inline void store_narrow(bf16* p, Vec a) {
  const __m256i words = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(a), 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), words);
}

#endif

#else

struct Vec {
  __m256 lo, hi;
};
struct Mask {
  __m256 lo, hi;
};

inline Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
inline Vec splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
inline Vec abs(Vec a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline Vec round(Vec a) {
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, nearest), _mm256_round_ps(a.hi, nearest)};
}
inline Mask at_most(Vec a, Vec b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ)};
}
inline Mask below(Vec a, Vec b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
inline Vec select(Mask m, Vec a, Vec b) {
  return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}
inline uint32_t bits(Mask m) {
  return static_cast<uint32_t>(_mm256_movemask_ps(m.lo)) |
         static_cast<uint32_t>(_mm256_movemask_ps(m.hi)) << 8;
}

inline __m256 scale(__m256 a, __m256 low) {
  const __m256i shift = _mm256_slli_epi32(_mm256_castps_si256(low), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), shift));
}
inline Vec scale(Vec a, Vec low) { return {scale(a.lo, low.lo), scale(a.hi, low.hi)}; }
inline Vec guess_reciprocal(Vec x) {
  const __m256i magic = _mm256_set1_epi32(0x7ef33400);
  return {_mm256_castsi256_ps(_mm256_sub_epi32(magic, _mm256_castps_si256(x.lo))),
          _mm256_castsi256_ps(_mm256_sub_epi32(magic, _mm256_castps_si256(x.hi)))};
}

inline __m256i load_half(const void* p, int half) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p) + half);
}
inline Vec from_int(const int32_t* p) {
  return {_mm256_cvtepi32_ps(load_half(p, 0)), _mm256_cvtepi32_ps(load_half(p, 1))};
}
inline void store_int(int32_t* p, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_cvtps_epi32(a.lo));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p) + 1, _mm256_cvtps_epi32(a.hi));
}
inline Vec from_int8(const int8_t* p) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8)))};
}
inline Vec from_half(const uint16_t* p) {
  const __m128i* halves = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
struct Sums {
  __m256i lo, hi;
};
inline Sums no_sums() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline void store_sums(int32_t* out, Sums sums) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), sums.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out) + 1, sums.hi);
}
inline __m256i add_half(__m256i sums, __m256i a, __m256i b) {
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
  return _mm256_add_epi32(sums, _mm256_add_epi32(even, odd));
}
inline Sums add_quads(Sums sums, const uint8_t* quads, int32_t four) {
  const __m256i b = _mm256_set1_epi32(four);
  return {add_half(sums.lo, load_half(quads, 0), b), add_half(sums.hi, load_half(quads, 1), b)};
}

struct Pairs {
  __m256i lo, hi;
};
inline Pairs load_pairs(const bf16* p) { return {load_half(p, 0), load_half(p, 1)}; }
inline void store(bf16* p, Pairs a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p) + 1, a.hi);
}
inline Pairs only(Mask m, Pairs a) {
  return {_mm256_and_si256(_mm256_castps_si256(m.lo), a.lo), _mm256_and_si256(_mm256_castps_si256(m.hi), a.hi)};
}
inline Vec even_of(Pairs a) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(a.lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(a.hi, 16))};
}
inline Vec odd_of(Pairs a) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return {_mm256_castsi256_ps(_mm256_and_si256(a.lo, high)), _mm256_castsi256_ps(_mm256_and_si256(a.hi, high))};
}
inline __m256i rounded(__m256 a) {
  const __m256i u = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
}
inline __m256i paired(__m256 even, __m256 odd) {
  const __m256i low = _mm256_srli_epi32(rounded(even), 16);
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return _mm256_or_si256(_mm256_and_si256(rounded(odd), high), low);
}
inline void store_pairs(bf16* p, Vec even, Vec odd) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), paired(even.lo, odd.lo));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p) + 1, paired(even.hi, odd.hi));
}
inline void store_narrow(bf16* p, Vec a) {
  const __m256i lo = _mm256_srli_epi32(rounded(a.lo), 16), hi = _mm256_srli_epi32(rounded(a.hi), 16);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), words);
}

#endif

// A square of 16 x 16, rows `stride` floats apart; out is packed.
inline void transpose(const float* in, size_t stride, float* out) {
#ifdef __AVX512F__
  // Each round doubles what lies together: pairs of rows, fours, and then quarters of registers.
  __m512 a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(in + i * stride);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int k = 0; k < 2; ++k) {
      const __m512d low = _mm512_castps_pd(b[i + k]), high = _mm512_castps_pd(b[i + 2 + k]);
      a[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      a[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  }
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 8; i += 4) {
      b[i] = _mm512_shuffle_f32x4(a[2 * i + k], a[2 * i + 4 + k], 0x88);
      b[i + 1] = _mm512_shuffle_f32x4(a[2 * i + k], a[2 * i + 4 + k], 0xdd);
    }
    for (int i = 0; i < 2; ++i) {
      _mm512_storeu_ps(out + (4 * i + k) * 16, _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88));
      _mm512_storeu_ps(out + (8 + 4 * i + k) * 16, _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd));
    }
  }
#else
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) out[j * 16 + i] = in[i * stride + j];
  }
#endif
}

// Added to a number below 2^22 in size, leaves the nearest whole one in the low bits.
constexpr float kWholePart = 12582912.0f;

// 2^x for -126 < x < 128 with a relative error of 3e-6 (minimax on [-1/2, 1/2] among polynomials that
// are 1 at 0).
inline Vec bounded_exp2(Vec x) {
  const Vec low = x + splat(kWholePart), part = x - (low - splat(kWholePart));
  Vec p = splat(9.582852944731712e-3f);
  p = fma(p, part, splat(5.5906426161527634e-2f));
  p = fma(p, part, splat(2.4024099111557007e-1f));
  p = fma(p, part, splat(6.931241750717163e-1f));
  return scale(fma(p, part, splat(1.0f)), low);
}

// The same for x < 128, and 0 from -125 down.
inline Vec exp2(Vec x) {
  const Vec lowest = splat(-125.0f);
  return select(below(lowest, x), bounded_exp2(max(x, lowest)), splat(0.0f));
}

// 1 / x for x >= 1 with a relative error of 2e-6: a first guess from the exponent's bits, a step like
// Newton's whose constant and the guess's make its largest errors equal, and one of Newton's. Division
// is slower, and the hardware's own estimate differs from maker to maker.
inline Vec reciprocal(Vec x) {
  Vec guess = guess_reciprocal(x);
  for (const float two : {2.00128f, 2.0f}) guess = guess * fma(splat(0.0f) - x, guess, splat(two));
  return guess;
}

inline Vec silu(Vec x) {
  const Vec exponent = min(max(x * splat(-1.4426950408889634f), splat(-125.0f)), splat(125.0f));
  return x * reciprocal(bounded_exp2(exponent) + splat(1.0f));
}

inline float widen(bf16 x) {
  const uint32_t u = static_cast<uint32_t>(x) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
inline bf16 narrow(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, 4);
  return static_cast<bf16>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

}  // namespace TF_LEVEL
