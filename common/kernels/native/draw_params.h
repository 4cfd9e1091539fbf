// How one token is drawn, whatever the CPU: what Python hands over, and the random number.
#pragma once
#include <cstdint>

namespace twinfleet {

// The fields of common/domain/sampling.py that rank and cut. The random number's name is (seed,
// choice, position): see common/engine/philox.py.
struct DrawParams {
  double temperature, top_p, min_p;
  uint64_t seed, position;
  uint32_t choice;
  int32_t top_k;
};

// In [0, 1), a multiple of 2^-53: the first word of Philox4x64-10. numpy steps the counter before
// it computes a word, hence position + 1.
inline double uniform(uint64_t seed, uint32_t choice, uint64_t position) {
  using Wide = unsigned __int128;
  uint64_t counter[4] = {position + 1, position + 1 == 0, 0, 0}, key[2] = {seed, choice};
  for (int round = 0; round < 10; ++round) {
    const Wide first = Wide{0xD2E7470EE14C6C93} * counter[0];
    const Wide second = Wide{0xCA5A826395121157} * counter[2];
    counter[0] = static_cast<uint64_t>(second >> 64) ^ counter[1] ^ key[0];
    counter[1] = static_cast<uint64_t>(second);
    counter[2] = static_cast<uint64_t>(first >> 64) ^ counter[3] ^ key[1];
    counter[3] = static_cast<uint64_t>(first);
    key[0] += 0x9E3779B97F4A7C15;
    key[1] += 0xBB67AE8584CAA73B;
  }
  return static_cast<double>(counter[0] >> 11) * 0x1p-53;
}

}  // namespace twinfleet
