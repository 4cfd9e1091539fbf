// What the engine is given once: the shape of a model and its packed matrices. Level-independent.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace twinfleet {

constexpr int kPanel = 16;  // tokens

inline int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

// Numbers are those of common/kernels/tiles.py.
enum class Stored : int32_t { kBf16 = 0, kQ8 = 1, kQ4 = 2, kQuads4 = 3, kQuads8 = 4 };

// Whether inputs become int8: the arithmetic of the whole model, since all its matrices agree.
inline bool takes_int8(Stored stored) { return stored == Stored::kQuads4 || stored == Stored::kQuads8; }

struct Matrix {
  Stored stored;
  int32_t rows, columns;  // without padding
  const uint8_t* tiles;
  const float* bias;    // padded, or null

  int strips() const { return round_up(rows, 32) / 16; }
  int k_tiles() const { return round_up(columns, tile_columns()) / tile_columns(); }
  int tile_columns() const { return takes_int8(stored) ? 64 : 32; }
  size_t tile_bytes() const {
    switch (stored) {
      case Stored::kQ8:
        return 512 + 32;
      case Stored::kQ4:
        return 256 + 64;
      case Stored::kQuads4:
        return 512 + 128;
      case Stored::kQuads8:
        return 1024 + 64;
      default:
        return 1024;
    }
  }
  size_t bytes() const { return static_cast<size_t>(strips()) * k_tiles() * tile_bytes(); }
};

struct Layer {
  const float *input_norm, *post_norm;
  const float *q_norm, *k_norm;  // null unless heads are normed
  Matrix qkv, output, gate_up, down;
};

struct Model {
  int32_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
  float eps;
  const float* frequencies;  // [head_dim / 2], radians a position
  const float* norm;
  Matrix head, embedding;
  std::vector<Layer> layer;

  int group() const { return heads / kv_heads; }
  int qkv_rows() const { return (heads + 2 * kv_heads) * head_dim; }
};

// The pool of KV blocks. A slot is [layer][keys, values][kv head], keys [token][dim] and values
// [dim][token], in bf16: each is then the left side of a product as it lies.
struct Pool {
  uint8_t* memory;
  size_t slot_bytes;
  int32_t slots, block_tokens;
};

// A ragged batch: sequence s has rows starts[s] to starts[s + 1], and its blocks are
// tables[table_starts[s]...]. `wanted` rows get logits: the best id always, all of them where
// `logits` has a row for it.
struct Batch {
  const int64_t* tokens;
  const int64_t* positions;
  const int32_t* starts;
  const int32_t* tables;
  const int32_t* table_starts;
  const int64_t* wanted;
  float* const* logits;  // [wanted], null where nobody needs them
  int32_t* best;         // [wanted]
  int32_t sequences, wanted_rows;
};

}  // namespace twinfleet
