// The most likely token of each lane, found while the head's products pass by: the logits of a row
// that nobody samples from are never written down.
#pragma once
#include <cmath>

#include "gemm.h"

namespace TF_LEVEL {

// The largest logit of each lane so far, and the lowest id that has it.
struct Best {
  alignas(64) float value[kLanes], id[kLanes];
  Best() {
    std::fill(value, value + kLanes, -INFINITY);
    std::fill(id, id + kLanes, 0.0f);
  }
  bool before(const Best& other, int lane) const {
    return value[lane] > other.value[lane] || (value[lane] == other.value[lane] && id[lane] < other.id[lane]);
  }
  void see(int first, int rows, const float* c) {
    Vec values = load(value), ids = load(id);
    for (int r = 0; r < rows; ++r) {
      const Vec logit = load(c + r * kLanes);
      const Mask better = below(values, logit);
      ids = select(better, splat(static_cast<float>(first + r)), ids);
      values = select(better, logit, values);
    }
    store(value, values);
    store(id, ids);
  }
};

}  // namespace TF_LEVEL
