// Compiled once for each CPU level, with that level's instructions and TF_LEVEL as its namespace.
#include "forward.h"

namespace twinfleet::TF_LEVEL {

std::unique_ptr<Engine> open(const Model& model, const Pool& pool, int threads) {
  return std::make_unique<::TF_LEVEL::Forward>(model, pool, threads);
}

}  // namespace twinfleet::TF_LEVEL
