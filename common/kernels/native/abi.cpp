// What Python calls, by ctypes. No call throws; a call that can fail says so by what it returns.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "buffer.h"
#include "engine.h"

namespace twinfleet {

enum Level : int32_t { kNone, kAvx2, kAvx512, kAmx };

// The kernel gives a process the tile registers when it asks for them.
bool permits_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Level best_level() {
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0, a1 = 0, none = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  constexpr unsigned kF16c = 1u << 29;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || (c & kF16c) == 0) {
    return kNone;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return kAvx2;
  }
  __get_cpuid_count(7, 0, &a, &b, &c, &d);
  __get_cpuid_count(7, 1, &a1, &none, &none, &none);
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;
  constexpr unsigned kTiles = kAmxBf16 | kAmxTile | kAmxInt8, kAvx512Bf16 = 1u << 5;
  const bool has_tiles = (d & kTiles) == kTiles && (a1 & kAvx512Bf16) != 0 &&
                         __builtin_cpu_supports("avx512vnni") &&
                         __builtin_cpu_supports("avx512vbmi");
  return has_tiles && permits_tiles() ? kAmx : kAvx512;
}

struct Handle {
  Model model;
  Pool pool;
  Buffer weights;
  std::unique_ptr<Engine> engine;
};

// Copies matrices one after another into memory that is huge pages as a whole.
class Copier {
 public:
  Copier(Buffer& target, size_t bytes) : target_(target) { target.reserve(bytes); }
  static size_t room(const Matrix& matrix) { return (matrix.bytes() + 63) / 64 * 64; }

  Matrix operator()(Matrix matrix) {
    std::memcpy(target_.as<uint8_t>() + used_, matrix.tiles, matrix.bytes());
    matrix.tiles = target_.as<uint8_t>() + used_;
    used_ += room(matrix);
    return matrix;
  }

 private:
  Buffer& target_;
  size_t used_ = 0;
};

struct Shape {
  int32_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
  float eps;
};

}  // namespace twinfleet

using namespace twinfleet;

#pragma GCC visibility push(default)
extern "C" {

int32_t tf_best_level() { return best_level(); }

// Operations a second; 0 when there is no memory for threads.
double tf_peak_flops(int32_t level, int32_t threads) try {
  if (level > best_level()) return 0;
  const auto peak = level == kAmx ? amx::peak_flops : level == kAvx512 ? avx512::peak_flops : avx2::peak_flops;
  return peak(threads);
} catch (const std::exception&) {
  return 0;
}

// `matrices`: qkv, output, gate_up and down of each layer, then head and embedding. `vectors`:
// input_norm, post_norm, q_norm and k_norm of each layer, then norm and rope frequencies; they stay
// the caller's, while tiles are copied. Null when memory does not suffice.
void* tf_open(const Shape* shape, const Matrix* matrices, const float* const* vectors) try {
  auto handle = std::make_unique<Handle>();
  Model& model = handle->model;
  model = {shape->hidden, shape->layers, shape->heads, shape->kv_heads, shape->head_dim,
           shape->intermediate, shape->vocab, shape->eps, nullptr, nullptr, {}, {}, {}};
  const int count = 4 * model.layers + 2;
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += Copier::room(matrices[i]);
  Copier copied(handle->weights, bytes);
  for (int l = 0; l < model.layers; ++l) {
    Layer layer{vectors[0], vectors[1], vectors[2], vectors[3], {}, {}, {}, {}};
    for (Matrix* matrix : {&layer.qkv, &layer.output, &layer.gate_up, &layer.down}) {
      *matrix = copied(*matrices++);
    }
    model.layer.push_back(layer);
    vectors += 4;
  }
  model.head = copied(matrices[0]);
  const bool tied = matrices[0].tiles == matrices[1].tiles;
  model.embedding = tied ? model.head : copied(matrices[1]);
  model.norm = vectors[0];
  model.frequencies = vectors[1];
  return handle.release();
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Where keys and values go from now on, and with which instructions and threads steps are computed.
int32_t tf_bind(void* opened, const Pool* pool, int32_t level, int32_t threads) try {
  Handle& handle = *static_cast<Handle*>(opened);
  if (level > best_level()) return 1;
  handle.pool = *pool;
  const auto open = level == kAmx ? amx::open : level == kAvx512 ? avx512::open : avx2::open;
  handle.engine = open(handle.model, handle.pool, threads);
  return 0;
} catch (const std::exception&) {
  return 2;
}

int32_t tf_step(void* opened, const Batch* batch) try {
  static_cast<Handle*>(opened)->engine->run(*batch);
  return 0;
} catch (const std::exception&) {
  return 2;
}

// -1 when memory does not suffice.
int32_t tf_draw(void* opened, const float* logits, const DrawParams* params) try {
  return static_cast<Handle*>(opened)->engine->draw(logits, *params);
} catch (const std::exception&) {
  return -1;
}

const double* tf_seconds(void* opened) { return static_cast<Handle*>(opened)->engine->seconds(); }

void tf_close(void* opened) { delete static_cast<Handle*>(opened); }

}  // extern "C"
#pragma GCC visibility pop
