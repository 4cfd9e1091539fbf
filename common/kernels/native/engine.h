// One engine, behind which stands the code of one CPU level.
#pragma once
#include <memory>

#include "draw_params.h"
#include "model.h"

namespace twinfleet {

namespace phase {
enum Phase { kNorm, kQkv, kRotate, kAttention, kOutput, kGateUp, kDown, kHead, kPhases };
}

class Engine {
 public:
  virtual ~Engine() = default;
  virtual void run(const Batch& batch) = 0;
  // One token of a row of logits, [vocab].
  virtual int32_t draw(const float* logits, const DrawParams& params) = 0;
  // Seconds the first thread spent in each phase, since the start.
  virtual const double* seconds() const = 0;
};

// The same source, compiled for each level: see level.cpp.
#define TF_DECLARE(level)                                                          \
  namespace level {                                                                \
  std::unique_ptr<Engine> open(const Model& model, const Pool& pool, int threads); \
  double peak_flops(int threads);                                                  \
  }
TF_DECLARE(avx2)
TF_DECLARE(avx512)
TF_DECLARE(amx)
#undef TF_DECLARE

}  // namespace twinfleet
