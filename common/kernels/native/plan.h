// How the rows of a batch are laid in panels, and what attention has to do. Made once a step; every
// layer follows it.
//
// A sequence with many rows gets panels of its own, so that sixteen rows attend together; sequences
// with few rows share panels, and each attends with several of its heads at once.
#pragma once
#include <algorithm>

#include "model.h"

namespace twinfleet {

constexpr int kFewRows = 8;
constexpr int kStepKeys = 32;  // of one step of attention

struct Row {
  int64_t token;
  int32_t position, sequence;
  int32_t slot, offset;  // where its key and value are written
};

// Lanes of one panel whose tokens lie side by side in one block.
struct Run {
  int lane, count;
  int32_t slot, offset;
};

struct PanelPlan {
  Row rows[kPanel];
  int count = 0;
  bool packed = false;  // of sequences with few rows
  std::vector<Run> runs;
};

// One piece of attention. With `panels` (one or two) of a sequence: the query heads of one kv head in
// turn. Packed, with none: rows [lane, lane + rows) of a panel, all query heads of kv heads [kv_head,
// kv_head + kv_heads), one lane for each pair of row and head.
struct Item {
  int panels;
  int panel, lane, rows;
  int kv_head, kv_heads;
  const int32_t* table;
  int32_t tokens;  // that its last row may look at
};

// Items that one thread does. Several look at the same keys before `shared`, and do so together
// (cascade attention; Hydragen, Juravsky et al. 2024): those are read once for all of them.
struct Piece {
  int first, count;
  int32_t shared;
};

struct Plan {
  std::vector<PanelPlan> panels;
  std::vector<Item> items;
  std::vector<Piece> pieces;  // those with panels of their own, then packed ones, the longest first
  std::vector<int> place;     // of each row of the batch: panel * 16 + lane

  void make(const Model& model, const Pool& pool, const Batch& batch, int threads) {
    threads_ = threads;
    panels.clear();
    items.clear();
    pieces.clear();
    place.clear();
    for (bool few : {false, true}) {
      for (int s = 0; s < batch.sequences; ++s) {
        const int rows = batch.starts[s + 1] - batch.starts[s];
        if (rows > 0 && (rows <= kFewRows) == few) lay(model, pool, batch, s, few);
      }
    }
    divide(model, pool);
  }

 private:
  void lay(const Model& model, const Pool& pool, const Batch& batch, int s, bool few) {
    const int first = batch.starts[s], count = batch.starts[s + 1] - first;
    const int32_t* table = batch.tables + batch.table_starts[s];
    place.resize(std::max(place.size(), static_cast<size_t>(first + count)));
    const bool fits = few && !panels.empty() && panels.back().packed && panels.back().count + count <= kPanel;
    for (int r = 0; r < count; ++r) {
      const bool fresh = r == 0 ? !fits : panels.back().count == kPanel;
      if (fresh) panels.emplace_back();
      PanelPlan& panel = panels.back();
      panel.packed = few;
      const int32_t position = static_cast<int32_t>(batch.positions[first + r]);
      const Row row{batch.tokens[first + r], position, s, table[position / pool.block_tokens],
                    position % pool.block_tokens};
      place[first + r] = static_cast<int>(panels.size() - 1) * kPanel + panel.count;
      add_to_runs(panel, row);
      panel.rows[panel.count++] = row;
    }
    few ? add_packed(model, batch, s, table) : add_whole(model, batch, s, table);
  }

  static void add_to_runs(PanelPlan& panel, const Row& row) {
    if (!panel.runs.empty()) {
      Run& last = panel.runs.back();
      if (last.slot == row.slot && last.offset + last.count == row.offset) {
        ++last.count;
        return;
      }
    }
    panel.runs.push_back({panel.count, 1, row.slot, row.offset});
  }

  // Head by head, so that its keys and values stay in a core's cache for all panels that meet them.
  void add_whole(const Model& model, const Batch& batch, int s, const int32_t* table) {
    const int first = batch.starts[s], count = batch.starts[s + 1] - first;
    const int pairs = (count + 2 * kPanel - 1) / (2 * kPanel);
    for (int head = 0; head < model.kv_heads; ++head) {
      for (int pair = pairs - 1; pair >= 0; --pair) {
        const int r = first + pair * 2 * kPanel, rows = std::min(2 * kPanel, first + count - r);
        items.push_back({rows > kPanel ? 2 : 1, place[r] / kPanel, 0, rows, head, 1, table,
                         static_cast<int32_t>(batch.positions[r + rows - 1]) + 1});
      }
    }
  }

  void add_packed(const Model& model, const Batch& batch, int s, const int32_t* table) {
    const int first = batch.starts[s], count = batch.starts[s + 1] - first;
    const int rows_at_once = std::min(count, kPanel / model.group());
    const int fitting = std::max(1, kPanel / (rows_at_once * model.group()));
    // A sequence alone is shared among the threads, even if its heads would fit one piece.
    const int even = (model.kv_heads + threads_ - 1) / threads_;
    const int heads_at_once = batch.sequences < threads_ ? std::min(fitting, even) : fitting;
    for (int r = 0; r < count; r += rows_at_once) {
      const int rows = std::min(rows_at_once, count - r);
      for (int head = 0; head < model.kv_heads; head += heads_at_once) {
        items.push_back({0, place[first + r] / kPanel, place[first + r] % kPanel, rows, head,
                         std::min(heads_at_once, model.kv_heads - head), table,
                         static_cast<int32_t>(batch.positions[first + r + rows - 1]) + 1});
      }
    }
  }

  // Items become pieces. In the order of their tables, those whose keys begin alike are neighbours.
  void divide(const Model& model, const Pool& pool) {
    const auto packed = std::find_if(items.begin(), items.end(), [](const Item& i) { return i.panels == 0; });
    const int first = static_cast<int>(packed - items.begin()), last = static_cast<int>(items.size());
    for (int i = 0; i < first; ++i) pieces.push_back({i, 1, 0});
    std::stable_sort(packed, items.end(), [&](const Item& a, const Item& b) {
      if (a.kv_head != b.kv_head) return a.kv_head < b.kv_head;
      return std::lexicographical_compare(a.table, a.table + whole_blocks(a, pool), b.table,
                                          b.table + whole_blocks(b, pool));
    });
    for (int begin = first, end = first; begin < last; begin = end) {
      while (end < last && (end == begin || common(items[begin], items[end], pool) >= kLeastShared)) ++end;
      share(model, pool, begin, end);
    }
    std::stable_sort(pieces.begin() + first, pieces.end(),
                     [&](const Piece& a, const Piece& b) { return keys_of(a) > keys_of(b); });
  }

  // Items [begin, end), whose keys begin alike: as few pieces as lanes allow, but so many that all
  // threads have one.
  void share(const Model& model, const Pool& pool, int begin, int end) {
    const int count = end - begin, fewest = round_up(count * lanes_of(items[begin], model), kPanel) / kPanel;
    const int wanted = std::min(count, round_up(fewest, threads_)), most = (count + wanted - 1) / wanted;
    for (int i = begin; i < end;) {
      Piece piece{i, 0, whole_blocks(items[i], pool) * pool.block_tokens};
      for (int lanes = 0; i < end && piece.count < most; ++i, ++piece.count) {
        lanes += lanes_of(items[i], model);
        if (lanes > kPanel) break;
        if (i > piece.first) piece.shared = std::min(piece.shared, common(items[piece.first], items[i], pool));
      }
      piece.shared = piece.count == 1 ? 0 : piece.shared / kStepKeys * kStepKeys;
      pieces.push_back(piece);
    }
  }

  static int lanes_of(const Item& item, const Model& model) { return item.rows * model.group(); }

  // Blocks that no row of the item writes to.
  int whole_blocks(const Item& item, const Pool& pool) const {
    return panels[item.panel].rows[item.lane].position / pool.block_tokens;
  }

  // Tokens at the beginning whose blocks are the same, if the items have the same kv heads.
  int common(const Item& a, const Item& b, const Pool& pool) const {
    if (a.kv_head != b.kv_head || a.kv_heads != b.kv_heads) return 0;
    const int blocks = std::min(whole_blocks(a, pool), whole_blocks(b, pool));
    const int32_t* const end = std::mismatch(a.table, a.table + blocks, b.table).first;
    return static_cast<int>(end - a.table) * pool.block_tokens;
  }

  int64_t keys_of(const Piece& piece) const {
    int64_t keys = piece.shared;
    for (int i = piece.first; i < piece.first + piece.count; ++i) keys += items[i].tokens - piece.shared;
    return keys;
  }

  static constexpr int kLeastShared = 64;  // tokens; fewer are not worth the turning of lanes

  int threads_ = 1;
};

// Values of tokens that do not exist yet are multiplied by zero, and must not be NaN: a block that
// this step begins and does not fill is cleared. Whoever fills it writes over that.
inline void clear_begun_blocks(const Model& model, const Pool& pool, const Plan& plan) {
  const size_t half = static_cast<size_t>(model.kv_heads) * pool.block_tokens * model.head_dim * 2;
  for (const PanelPlan& panel : plan.panels) {
    for (const Run& run : panel.runs) {
      if (run.offset != 0 || run.count == pool.block_tokens) continue;
      for (int layer = 0; layer < model.layers; ++layer) {
        uint8_t* block = pool.memory + pool.slot_bytes * run.slot;
        __builtin_memset(block + (2 * layer + 1) * half, 0, half);
      }
    }
  }
}

}  // namespace twinfleet
