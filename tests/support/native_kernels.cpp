// The functions of the native kernels under C names: what tests/support/native_kernels.py compiles.
#include <sys/syscall.h>
#include <unistd.h>

#include "attention.h"

using namespace TF_LEVEL;

namespace {

struct Products {
  const bf16 *a, *b;
  size_t stride, next, a_step, b_step, b_next;
  int32_t count, from_zero;
};

template <int T, int U>
void products_of(const Products& p, float* out) {
  std::vector<Operand> operands;
  for (int i = 0; i < p.count; ++i) {
    operands.push_back({p.a + i * p.a_step, p.stride, p.next, p.b + i * p.b_step});
  }
  tile_products<T, U>(operands.data(), p.count, p.b_next, p.from_zero != 0, out, T * kTile);
}

template <class Kind>
void strips_of(const Matrix& w, int pair, int count, const bf16* const* panels, float* out) {
  const uint8_t* tiles = w.tiles + Kind::kBytes * w.k_tiles() * 2 * pair;
  count == 2 ? strip_products<Kind, 2>(tiles, panels, w.k_tiles(), out)
             : strip_products<Kind, 1>(tiles, panels, w.k_tiles(), out);
}

struct Attend {
  uint8_t* pool;
  const int32_t* table;
  const bf16* queries;     // [sources][states][dim / 2][16][2]
  const float* owners;     // [16]: which source a lane is of
  const float* positions;  // [states][16]
  int32_t block_tokens, kv_heads, head_dim, sources, states, tokens;
};

template <int U>
void attend_over(const Attend& call, float* out) {
  twinfleet::Model model{};
  model.layers = 1;
  model.kv_heads = call.kv_heads;
  model.head_dim = call.head_dim;
  const size_t block = size_t{4} * call.kv_heads * call.block_tokens * call.head_dim;
  const twinfleet::Pool pool{call.pool, block, 0, call.block_tokens};
  const LayerPool layer{pool, model, 0};
  AttentionScratch scratch;
  scratch.fit(model);
  const size_t width = static_cast<size_t>(call.head_dim) * kLanes;
  std::vector<Source> sources;
  for (int s = 0; s < call.sources; ++s) {
    const Vec other = load(call.owners) - splat(static_cast<float>(s));
    sources.push_back({s, call.queries + s * U * width, at_most(abs(other), splat(0.0f))});
  }
  std::vector<SoftmaxState> states;
  for (int u = 0; u < U; ++u) {
    const float* positions = call.positions + u * kLanes;
    float lowest = 1e9f;
    for (int i = 0; i < kLanes; ++i) {
      if (positions[i] >= 0) lowest = std::min(lowest, positions[i]);
    }
    states.push_back({load(positions), static_cast<int>(lowest), out + u * width});
  }
  Attention<U> attention(layer, call.table, call.tokens, sources.data(), call.sources, states.data(), scratch);
  attention.run();
  attention.finish();
}

}  // namespace

extern "C" {

int permitted() {
#ifdef __AMX_TILE__
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#else
  return 1;
#endif
}

void expand_tile(int stored, const uint8_t* tile, bf16* out) {
  const MatrixUnit unit;
  switch (static_cast<Stored>(stored)) {
    case Stored::kBf16:
      return StoredBf16::expand(tile, out);
    case Stored::kQ8:
      return StoredQ8::expand(tile, out);
    case Stored::kQ4:
      return StoredQ4::expand(tile, out);
    default:
      return;
  }
}

void embed(const Matrix* matrix, int row, float* out) {
  const MatrixUnit unit;
  read_row(*matrix, row, out);
}

void products(int tiles, int states, const Products* p, float* out) {
  const MatrixUnit unit;
  if (states == 2) return tiles == 1 ? products_of<1, 2>(*p, out) : products_of<2, 2>(*p, out);
  if (tiles == 1) return products_of<1, 1>(*p, out);
  tiles == 2 ? products_of<2, 1>(*p, out) : products_of<4, 1>(*p, out);
}

void strips(const Matrix* w, int pair, int count, const bf16* const* panels, float* out) {
  const MatrixUnit unit;
  if (w->stored == Stored::kBf16) strips_of<StoredBf16>(*w, pair, count, panels, out);
  if (w->stored == Stored::kQ8) strips_of<StoredQ8>(*w, pair, count, panels, out);
  if (w->stored == Stored::kQ4) strips_of<StoredQ4>(*w, pair, count, panels, out);
}

void times(const Matrix* w, const uint8_t* panels, size_t panel_bytes, int count, int threads,
           float* out) {
  const int rows = w->strips() * kLanes;
  twinfleet::Team team(threads);
  Work work;
  work.begin(threads);
  team.run([&](int) {
    const MatrixUnit unit;
    std::vector<bf16> scratch(scratch_bytes(w->columns) / sizeof(bf16));
    multiply(*w, {panels, panel_bytes, count}, work, scratch.data(),
             [&](int pair, int panel, const float* c) {
               float* to = out + (static_cast<size_t>(panel) * rows + pair * 32) * kLanes;
               for (int i = 0; i < 2 * kTile; i += kLanes) store(to + i, load(c + i));
             });
  });
}

size_t packed_size(int stored, int features) {
  return packed_bytes(static_cast<Stored>(stored), features);
}

void pack_panel(int stored, const float* x, int features, int tokens, uint8_t* out) {
  const MatrixUnit unit;
  pack(static_cast<Stored>(stored), x, features, tokens, out);
}

void norm(const float* x, const float* weight, int features, float eps, float* out) {
  const MatrixUnit unit;
  rms_norm(x, weight, features, eps, out);
}

void turn(float* head, int dim, const float* cos, const float* sin) {
  const MatrixUnit unit;
  rotate(head, dim, cos, sin);
}

void powers(const float* x, int count, float* out) {
  const MatrixUnit unit;
  for (int i = 0; i < count; i += kLanes) store(out + i, exp2(load(x + i)));
}

void squares(const float* x, int count, float* out) {
  for (int i = 0; i < count; i += 2 * kTile) {
    transpose(x + i, 2 * kLanes, out + i);
    transpose(x + i + kLanes, 2 * kLanes, out + i + kTile);
  }
}

// Numbers in 128ths, in pairs of panels; so are the powers, widened.
void bf16_powers(const float* x, int count, float* out) {
  const MatrixUnit unit;
  const PowerLookup lookup(kPowers);
  for (int i = 0; i < count; i += 2 * kLanes) {
    const Pairs pair = powers(lookup, load(x + i), load(x + i + kLanes));
    store(out + i, even_of(pair));
    store(out + i + kLanes, odd_of(pair));
  }
}

void reciprocals(const float* x, int count, float* out) {
  const MatrixUnit unit;
  for (int i = 0; i < count; i += kLanes) store(out + i, reciprocal(load(x + i)));
}

void silus(const float* x, int count, float* out) {
  const MatrixUnit unit;
  for (int i = 0; i < count; i += kLanes) store(out + i, silu(load(x + i)));
}

void attend(const Attend* call, float* out) {
  const MatrixUnit unit;
  call->states == 2 ? attend_over<2>(*call, out) : attend_over<1>(*call, out);
}
}
