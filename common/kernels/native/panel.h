// What is done to the features of a panel between products. A panel is [feature][16 lanes] in fp32;
// a lane is one token, and no operation mixes lanes.
#pragma once
#include "gemm.h"

namespace TF_LEVEL {

// As bf16 pairs of features. Features beyond the last are zero already, and stay so.
inline void pack_bf16(const float* x, int features, uint8_t* packed) {
  bf16* out = reinterpret_cast<bf16*>(packed);
  for (int f = 0; f < features; f += 2) {
    store_pairs(out + f * kLanes, load(x + f * kLanes), load(x + (f + 1) * kLanes));
  }
}

// As 16-bit whole numbers in two planes of int8: value = scale * (256 * high + low), the largest of
// a lane 127 * 256, so that no high byte overflows.
inline void pack_int8(const float* x, int features, uint8_t* packed) {
  constexpr float kLargest = 127.0f * 256.0f;
  Vec largest = splat(0.0f);
  for (int f = 0; f < features; ++f) largest = max(largest, abs(load(x + f * kLanes)));
  const Vec factor = splat(kLargest) / max(largest, splat(1e-30f));
  const size_t plane = static_cast<size_t>(twinfleet::round_up(features, 64)) * kLanes;
  uint32_t* high = reinterpret_cast<uint32_t*>(packed);
  uint32_t* low = reinterpret_cast<uint32_t*>(packed + plane);
  for (int f = 0; f < features; f += 4) {
    alignas(64) int32_t number[4][kLanes];
    for (int i = 0; i < 4; ++i) store_int(number[i], load(x + (f + i) * kLanes) * factor);
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t high_bytes = 0, low_bytes = 0;
      for (int i = 0; i < 4; ++i) {
        high_bytes |= ((static_cast<uint32_t>(number[i][lane] + 128) >> 8) & 0xff) << (8 * i);
        low_bytes |= (static_cast<uint32_t>(number[i][lane]) & 0xff) << (8 * i);
      }
      high[f / 4 * kLanes + lane] = high_bytes;
      low[f / 4 * kLanes + lane] = low_bytes;
    }
  }
  store(reinterpret_cast<float*>(packed + 2 * plane), largest * splat(1.0f / kLargest));
}

inline void pack(Stored stored, const float* x, int features, uint8_t* packed) {
  stored == Stored::kInt8 ? pack_int8(x, features, packed) : pack_bf16(x, features, packed);
}

// out = x / sqrt(mean(x^2) + eps) * weight, over `features` features.
inline void rms_norm(const float* x, const float* weight, int features, float eps, float* out) {
  Vec sums[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  for (int f = 0; f < features; f += 4) {
    for (int i = 0; i < 4; ++i) {
      const Vec value = load(x + (f + i) * kLanes);
      sums[i] = fma(value, value, sums[i]);
    }
  }
  const Vec mean = ((sums[0] + sums[1]) + (sums[2] + sums[3])) / splat(static_cast<float>(features));
  const Vec factor = splat(1.0f) / sqrt(mean + splat(eps));
  for (int f = 0; f < features; ++f) {
    store(out + f * kLanes, load(x + f * kLanes) * factor * splat(weight[f]));
  }
}

// Turns dimension i of a head with dimension i + dim / 2. cos and sin are [dim / 2][16].
inline void rotate(float* head, int dim, const float* cos, const float* sin) {
  for (int i = 0; i < dim / 2; ++i) {
    float *first = head + i * kLanes, *second = head + (i + dim / 2) * kLanes;
    const Vec a = load(first), b = load(second), c = load(cos + i * kLanes), s = load(sin + i * kLanes);
    store(first, a * c - b * s);
    store(second, b * c + a * s);
  }
}

}  // namespace TF_LEVEL
