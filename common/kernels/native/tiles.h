// The products everything else is made of: 16 rows times 16 lanes, over tiles of columns.
//
// The order of a sum is part of the arithmetic. For bf16 it is the matrix unit's (Intel SDM,
// TDPBF16PS): within 32 columns the even and the odd ones are summed apart, from zero, in order,
// each product exact; the two sums are added, and that to the result. Without a matrix unit the
// same is done with fused multiply-adds, so every level gives the same bits. Denormals count as
// zero everywhere. Sums of int8 are exact, so their order does not matter.
#pragma once
#include "expand.h"

namespace TF_LEVEL {

constexpr int kTile = kLanes * kLanes;

// A[t] (16 rows of 32 columns, `stride` bytes apart) for t = 0, 1, ...: `next` bytes apart.
// B is 16 pairs of columns for 16 lanes.
struct Operand {
  const bf16* a;
  size_t stride, next;
  const bf16* b;
};

inline void prefetch(const void* p, size_t bytes) {
  const char* line = static_cast<const char*>(p);
  for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(line + i, _MM_HINT_T1);
}

}  // namespace TF_LEVEL

#ifdef __AMX_TILE__
#include "tiles_amx.h"
#else
#include "tiles_vector.h"
#endif
