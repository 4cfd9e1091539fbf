// Compiled once for each CPU level, with that level's instructions and TF_LEVEL as its namespace.
#include "forward.h"
#include "peak.h"

namespace twinfleet::TF_LEVEL {

std::unique_ptr<Engine> open(const Model& model, const Pool& pool, int threads) {
  return std::make_unique<::TF_LEVEL::Forward>(model, pool, threads);
}

double peak_flops(int threads) { return ::TF_LEVEL::peak_flops(threads); }

}  // namespace twinfleet::TF_LEVEL
