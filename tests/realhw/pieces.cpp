// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/pieces.h"

#include <algorithm>

#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

class Splitter {
 public:
  Splitter(const Plan& plan, const RealStep& step, const PieceOptions& options)
      : plan_(plan), step_(step), options_(options) {}

  Plan split() {
    Plan result{plan_.name, plan_.gpus, {}};
    for (const Op& op : plan_.ops) {
      auto& ids = pieces_.emplace_back();
      if (!splits(op)) {
        ids = {add(result, op, -1)};
        continue;
      }
      ids.resize(options_.backward.size());
      const std::vector<int> in_order = {0, 1, 2};
      for (const int piece : op.key.pass == Pass::forward ? in_order : options_.backward) {
        ids[static_cast<std::size_t>(piece)] = add(result, op, piece);
      }
    }
    return result;
  }

 private:
  bool splits(const Op& op) const {
    if (op.key.stage == Stage::experts) return options_.kernels;
    if (op.exchange() != nullptr) return !op.exchange()->rows.empty();
    for (const char* name : {"sort", "reduce", "reduce-grad", "sort-grad", "relay"}) {
      if (op.label == name) return true;
    }
    return false;
  }

  /// Piece below 0: the whole op.
  OpId add(Plan& result, Op op, int piece) const {
    std::vector<OpId> after;
    for (const OpId id : op.after) {
      const auto& ids = pieces_[id.index()];
      if (piece >= 0 && ids.size() > 1) {
        after.push_back(ids[static_cast<std::size_t>(piece)]);
      } else {
        after.insert(after.end(), ids.begin(), ids.end());
      }
    }
    std::sort(after.begin(), after.end());
    op.after = std::move(after);
    if (piece >= 0) cut(op, piece);
    return result.add(std::move(op));
  }

  /// The third of all tokens that a token is in.
  int piece_of(const Op& op, TokenId token) const {
    return token.value * 3 / layer_of(op).tokens();
  }
  const RoutedLayer& layer_of(const Op& op) const {
    return *std::find_if(step_.layers.begin(), step_.layers.end(),
                         [&](const RoutedLayer& layer) { return layer.number == op.key.layer; });
  }

  void cut(Op& op, int piece) const {
    if (auto* exchange = std::get_if<Exchange>(&op.work)) {
      const Bytes unit(exchange->traffic.total().value / std::ssize(exchange->rows));
      std::erase_if(exchange->rows,
                    [&](const RowMove& r) { return piece_of(op, r.token) != piece; });
      exchange->traffic = ByteMatrix(unit);
      exchange->transposed = false;
      for (const GpuId from : op.group) {
        std::vector<std::uint32_t> units(op.group.size());
        for (const RowMove& row : exchange->rows) {
          units[op.group.member(row.to)] += row.from == from ? 1 : 0;
        }
        exchange->traffic.add_dense_row(units);
      }
      return;
    }
    if (!std::holds_alternative<GroupedGemm>(op.kernels()->of(0))) return;
    const RoutedLayer& layer = layer_of(op);
    for (std::size_t member = 0; member < op.group.size(); ++member) {
      const GpuId gpu = op.group[member];
      std::vector<std::int64_t> m(test::gemm_on(op, member).m.size());
      const std::int64_t first = layer.placement.first_slot(gpu).value;
      for (ChoiceId choice(0); choice.index() < layer.slot.size(); ++choice.value) {
        if (layer.dropped(choice) || layer.gpu_of(choice) != gpu) continue;
        if (piece_of(op, layer.token_of(choice)) != piece) continue;
        ++m[static_cast<std::size_t>(layer.slot[choice.index()].value - first)];
      }
      test::set_rows(op, std::move(m), member);
    }
  }

  const Plan& plan_;
  const RealStep& step_;
  const PieceOptions& options_;
  std::vector<std::vector<OpId>> pieces_;  // [op] what became of it, by piece
};

}  // namespace

Plan in_pieces(const Plan& plan, const RealStep& step, const PieceOptions& options) {
  return Splitter(plan, step, options).split();
}

}  // namespace moesim
