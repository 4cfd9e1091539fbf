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

// As whole numbers up to 127 of a scale for each token and block of 32 features.
inline void pack_int8(const float* x, int features, int tokens, uint8_t* packed) {
  typedef int32_t Ints __attribute__((vector_size(64)));
  Inputs* inputs = reinterpret_cast<Inputs*>(packed);
  const int padded = twinfleet::round_up(features, 2 * kBlock);
  for (int first = 0; first < padded; first += kBlock) {
    Inputs& to = inputs[first / (2 * kBlock)];
    const int block = first / kBlock % 2, count = std::clamp(features - first, 0, kBlock);
    Vec largest = splat(0.0f), total = splat(0.0f);
    for (int f = first; f < first + count; ++f) largest = max(largest, abs(load(x + f * kLanes)));
    const Vec factor = splat(127.0f) / max(largest, splat(1e-30f)), scale = largest * splat(1.0f / 127.0f);
    alignas(64) Ints numbers[kBlock] = {}, quads[kBlock / 4];
    for (int f = 0; f < count; ++f) {
      const Vec number = round(load(x + (first + f) * kLanes) * factor);
      store_int(reinterpret_cast<int32_t*>(numbers + f), number);
      total = total + number;
    }
    for (int q = 0; q < kBlock / 4; ++q) {
      const Ints* n = numbers + 4 * q;
      quads[q] = (n[0] & 255) | (n[1] & 255) << 8 | (n[2] & 255) << 16 | n[3] << 24;
    }
    store(to.scales[block], scale);
    store(to.sums[block], scale * total);
    for (int t = 0; t < tokens; ++t) {
      int32_t* row = reinterpret_cast<int32_t*>(to.numbers[block][t] + block * kBlock);
      for (int q = 0; q < kBlock / 4; ++q) row[q] = quads[q][t];
    }
  }
  *reinterpret_cast<int32_t*>(inputs + padded / (2 * kBlock)) = tokens;
}

inline void pack(Stored stored, const float* x, int features, int tokens, uint8_t* packed) {
  twinfleet::takes_int8(stored) ? pack_int8(x, features, tokens, packed) : pack_bf16(x, features, packed);
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
