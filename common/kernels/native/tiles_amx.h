// Tile products on the matrix unit. Tiles 0-3 hold sums, 4-7 what is multiplied.
#pragma once

namespace TF_LEVEL {

// Sets this thread's arithmetic for as long as it lives.
class MatrixUnit {
 public:
  MatrixUnit() : control_(_mm_getcsr()) {
    _mm_setcsr(control_ | 0x8040);  // denormals are zero, in and out
    struct {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } shape;
    for (int tile = 0; tile < 8; ++tile) {
      shape.row_bytes[tile] = 64;
      shape.rows[tile] = kLanes;
    }
    // GCC 12 believes that only the first bytes are read, and would drop the other stores.
    asm volatile("" ::"r"(&shape) : "memory");
    _tile_loadconfig(&shape);
  }
  ~MatrixUnit() {
    _tile_release();
    _mm_setcsr(control_);
  }

 private:
  const unsigned control_;
};

// GCC 12 does not know that loading a tile reads memory, and could leave out or put off what is
// stored for it: everything is stored where this is called.
inline void settle() { asm volatile("" ::: "memory"); }

// c[u][t] += sum over the operands of A[t] B[u], from zero if these are the first; `b_next` and
// `c_next` lead from one u to the next.
template <int T, int U>
inline void tile_products(const Operand* operands, int count, size_t b_next, bool first, float* c,
                          size_t c_next) {
  static_assert((T == 1 || T == 2 || T == 4) && T * U <= 4);
  settle();
  if (first) {
    _tile_zero(0);
    if (T > 1) _tile_zero(1);
    if (U > 1 || T > 2) _tile_zero(2);
    if (T * U > 2) _tile_zero(3);
  } else {
    _tile_loadd(0, c, 64);
    if (T > 1) _tile_loadd(1, c + kTile, 64);
    if (U > 1) _tile_loadd(2, c + c_next, 64);
    if (U > 1 && T > 1) _tile_loadd(3, c + c_next + kTile, 64);
    if (T > 2) _tile_loadd(2, c + 2 * kTile, 64);
    if (T > 2) _tile_loadd(3, c + 3 * kTile, 64);
  }
  for (int i = 0; i < count; ++i) {
    const Operand& o = operands[i];
    const char* a = reinterpret_cast<const char*>(o.a);
    _tile_loadd(4, o.b, 64);
    if (U > 1) _tile_loadd(5, o.b + b_next, 64);
    _tile_loadd(6, a, o.stride);
    _tile_dpbf16ps(0, 6, 4);
    if (U > 1) _tile_dpbf16ps(2, 6, 5);
    if (T > 1) {
      _tile_loadd(7, a + o.next, o.stride);
      _tile_dpbf16ps(1, 7, 4);
      if (U > 1) _tile_dpbf16ps(3, 7, 5);
    }
    if (T > 2) {
      _tile_loadd(6, a + 2 * o.next, o.stride);
      _tile_dpbf16ps(2, 6, 4);
      _tile_loadd(7, a + 3 * o.next, o.stride);
      _tile_dpbf16ps(3, 7, 4);
    }
  }
  _tile_stored(0, c, 64);
  if (T > 1) _tile_stored(1, c + kTile, 64);
  if (U > 1) _tile_stored(2, c + c_next, 64);
  if (U > 1 && T > 1) _tile_stored(3, c + c_next + kTile, 64);
  if (T > 2) _tile_stored(2, c + 2 * kTile, 64);
  if (T > 2) _tile_stored(3, c + 3 * kTile, 64);
}

// A pair of strips times one or two panels: c[panel][strip]. A tile of weights is expanded
// while the unit multiplies the one before.
template <class Stored, int P>
inline void strip_products(const uint8_t* pair, const bf16* const panels[2], int k_tiles, float* c) {
  constexpr int kAhead = 16;  // tiles of memory latency that a core cannot hide by itself
  alignas(64) bf16 ring[2][2][kTileWeights];
  const auto tile = [&](int k, int s) { return pair + (2 * k + s) * Stored::kBytes; };
  const auto fetch = [&](int k) {
    prefetch(tile(k + kAhead, 0), 2 * Stored::kBytes);
    for (int s = 0; Stored::kExpands && s < 2; ++s) Stored::expand(tile(k, s), ring[k & 1][s]);
    settle();
  };
  const auto weights = [&](int k, int s) {
    return Stored::kExpands ? ring[k & 1][s] : reinterpret_cast<const bf16*>(tile(k, s));
  };
  _tile_zero(0);
  _tile_zero(1);
  if (P > 1) _tile_zero(2);
  if (P > 1) _tile_zero(3);
  fetch(0);
  for (int k = 0; k < k_tiles; ++k) {
    if (k + 1 < k_tiles) fetch(k + 1);
    _tile_loadd(4, panels[0] + k * kTileWeights, 64);
    _tile_loadd(6, weights(k, 0), 64);
    _tile_dpbf16ps(0, 6, 4);
    _tile_loadd(7, weights(k, 1), 64);
    _tile_dpbf16ps(1, 7, 4);
    if (P > 1) {
      _tile_loadd(5, panels[1] + k * kTileWeights, 64);
      _tile_dpbf16ps(2, 6, 5);
      _tile_dpbf16ps(3, 7, 5);
    }
  }
  _tile_stored(0, c, 64);
  _tile_stored(1, c + kTile, 64);
  if (P > 1) _tile_stored(2, c + 2 * kTile, 64);
  if (P > 1) _tile_stored(3, c + 3 * kTile, 64);
}

// The same with a pair that is expanded already and in the first cache, which the panels only pass
// by. Adds to c, unless these are the first tiles.
template <int P>
inline void add_products(const bf16* pair, const bf16* const panels[2], int k_tiles, bool first, float* c) {
  settle();
  if (first) {
    _tile_zero(0);
    _tile_zero(1);
    if (P > 1) _tile_zero(2);
    if (P > 1) _tile_zero(3);
  } else {
    _tile_loadd(0, c, 64);
    _tile_loadd(1, c + kTile, 64);
    if (P > 1) _tile_loadd(2, c + 2 * kTile, 64);
    if (P > 1) _tile_loadd(3, c + 3 * kTile, 64);
  }
  for (int k = 0; k < k_tiles; ++k, pair += 2 * kTileWeights) {
    _tile_stream_loadd(4, panels[0] + k * kTileWeights, 64);
    _tile_loadd(6, pair, 64);
    _tile_dpbf16ps(0, 6, 4);
    _tile_loadd(7, pair + kTileWeights, 64);
    _tile_dpbf16ps(1, 7, 4);
    if (P > 1) {
      _tile_stream_loadd(5, panels[1] + k * kTileWeights, 64);
      _tile_dpbf16ps(2, 6, 5);
      _tile_dpbf16ps(3, 7, 5);
    }
  }
  _tile_stored(0, c, 64);
  _tile_stored(1, c + kTile, 64);
  if (P > 1) _tile_stored(2, c + 2 * kTile, 64);
  if (P > 1) _tile_stored(3, c + 3 * kTile, 64);
}

constexpr int kFewTokens = 4;  // whose sums are made sooner without the matrix unit

// Of codes [16 quads][16 rows][4] of two strips and numbers [2 blocks][16 tokens][64]:
// sums[strip][block][token][row].
inline void many_block_sums(const uint8_t* const codes[2], const int8_t* numbers, int32_t* sums) {
  settle();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, numbers, 64);
  _tile_loadd(6, codes[0], 64);
  _tile_dpbsud(0, 4, 6);
  _tile_loadd(5, numbers + 1024, 64);
  _tile_dpbsud(1, 5, 6);
  _tile_loadd(7, codes[1], 64);
  _tile_dpbsud(2, 4, 7);
  _tile_dpbsud(3, 5, 7);
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + kTile, 64);
  _tile_stored(2, sums + 2 * kTile, 64);
  _tile_stored(3, sums + 3 * kTile, 64);
}

}  // namespace TF_LEVEL
