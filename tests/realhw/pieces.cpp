// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/pieces.h"

#include <algorithm>

namespace moesim {
namespace {

class Splitter {
 public:
  Splitter(const Plan& plan, const RealStep& step, bool turned)
      : plan_(plan), step_(step), turned_(turned) {}

  Plan split() {
    Plan result{plan_.name, plan_.gpus, {}};
    for (const Op& op : plan_.ops) {
      auto& ids = pieces_.emplace_back();
      if (!splits(op)) {
        ids = {add(result, op, -1)};
        continue;
      }
      const bool turn = turned_ && op.pass == Pass::backward;
      ids.resize(2);
      for (const int parity : turn ? std::vector{1, 0} : std::vector{0, 1}) {
        ids[static_cast<std::size_t>(parity)] = add(result, op, parity);
      }
    }
    return result;
  }

 private:
  static bool splits(const Op& op) {
    if (op.stage == Stage::experts) return true;
    if (op.exchange() != nullptr) return !op.exchange()->rows.empty();
    for (const char* name : {"sort", "reduce", "reduce-grad", "sort-grad", "relay"}) {
      if (op.name == name) return true;
    }
    return false;
  }

  /// Parity below 0: the whole op.
  OpId add(Plan& result, Op op, int parity) const {
    std::vector<OpId> after;
    for (const OpId id : op.after) {
      const auto& ids = pieces_[id.index()];
      if (parity >= 0 && ids.size() == 2) {
        after.push_back(ids[static_cast<std::size_t>(parity)]);
      } else {
        after.insert(after.end(), ids.begin(), ids.end());
      }
    }
    std::sort(after.begin(), after.end());
    op.after = std::move(after);
    if (parity >= 0) halve(op, parity);
    return result.add(std::move(op));
  }

  void halve(Op& op, int parity) const {
    if (auto* exchange = std::get_if<Exchange>(&op.work)) {
      const Bytes unit(exchange->traffic.total().value / std::ssize(exchange->rows));
      std::erase_if(exchange->rows, [&](const RowMove& r) { return r.token.value % 2 != parity; });
      exchange->traffic = ByteMatrix(unit);
      for (GpuId from(0); from.value < plan_.gpus; ++from.value) {
        std::vector<std::uint32_t> units(static_cast<std::size_t>(plan_.gpus));
        for (const RowMove& row : exchange->rows) units[row.to.index()] += row.from == from ? 1 : 0;
        exchange->traffic.add_dense_row(units);
      }
      return;
    }
    auto& compute = std::get<Compute>(op.work);
    auto* gemm = std::get_if<GroupedGemm>(&compute.kernel);
    if (gemm == nullptr) return;
    std::fill(gemm->m.begin(), gemm->m.end(), 0);
    const RoutedLayer& layer = *std::find_if(step_.layers.begin(), step_.layers.end(),
                                             [&](const auto& l) { return l.number == op.layer; });
    const std::int64_t first = layer.placement.first_slot(compute.gpu).value;
    for (ChoiceId choice(0); choice.index() < layer.slot.size(); ++choice.value) {
      if (layer.dropped(choice) || layer.gpu_of(choice) != compute.gpu) continue;
      if (layer.token_of(choice).value % 2 != parity) continue;
      ++gemm->m[static_cast<std::size_t>(layer.slot[choice.index()].value - first)];
    }
  }

  const Plan& plan_;
  const RealStep& step_;
  bool turned_;
  std::vector<std::vector<OpId>> pieces_;  // [op] what became of it; of two by parity
};

}  // namespace

Plan in_two_pieces(const Plan& plan, const RealStep& step, bool turned) {
  return Splitter(plan, step, turned).split();
}

}  // namespace moesim
