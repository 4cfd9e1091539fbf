// The speed of tile products that find everything in the first cache: what a step is compared with.
#pragma once
#include <chrono>

#include "team.h"
#include "tiles.h"

namespace TF_LEVEL {

// Operations a second of so many threads; a multiplication and its addition are two.
inline double peak_flops(int threads) {
  constexpr int kOperands = 8;
  constexpr double kFlops = 2.0 * kOperands * 4 * kLanes * kLanes * kTileColumns, kLongEnough = 0.02;
  twinfleet::Team team(threads);
  for (int calls = 64;; calls *= 2) {
    const auto start = std::chrono::steady_clock::now();
    team.run([&](int) {
      const MatrixUnit unit;
      alignas(64) bf16 a[2 * kOperands * kTileWeights] = {}, b[2 * kOperands * kTileWeights] = {};
      alignas(64) float c[4 * kTile];
      Operand operands[kOperands];
      for (int i = 0; i < kOperands; ++i) {
        operands[i] = {a + 2 * i * kTileWeights, 64, 1024, b + i * kTileWeights};
      }
      for (int i = 0; i < calls; ++i) {
        tile_products<2, 2>(operands, kOperands, kOperands * kTileWeights, true, c, 2 * kTile);
      }
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (seconds.count() > kLongEnough) return kFlops * calls * threads / seconds.count();
  }
}

}  // namespace TF_LEVEL
