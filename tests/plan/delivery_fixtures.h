// SPDX-License-Identifier: Apache-2.0
// A plain reference builder of layer plans from rows, for the delivery tests.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/plan/delivery.h"
#include "tests/plan/fixtures.h"

namespace moesim::test {

using Phases = std::vector<std::vector<RowMove>>;
inline constexpr int row_bytes = 16;

/// Sets the matrix of an exchange to what its rows move.
inline void fill_traffic(Exchange& exchange, int gpus) {
  const auto n = static_cast<std::size_t>(gpus);
  std::vector<std::uint32_t> rows(n * n);
  for (const RowMove& row : exchange.rows) ++rows[row.from.index() * n + row.to.index()];
  exchange.traffic = ByteMatrix(Bytes(row_bytes));
  for (std::size_t from = 0; from < n; ++from) {
    exchange.traffic.add_dense_row({rows.data() + from * n, n});
  }
}

inline Exchange& exchange_in(Plan& plan, std::size_t op) {
  return std::get<Exchange>(plan.ops[op].work);
}

/// The way back: the phases in reverse order, every row turned around.
inline Phases mirrored(Phases out) {
  std::reverse(out.begin(), out.end());
  for (auto& rows : out) {
    for (RowMove& row : rows) std::swap(row.from, row.to);
  }
  return out;
}

/// One exchange per phase over all GPUs, then `gemms` on every GPU, then the way back. `grouped`:
/// one op per GEMM for all GPUs, in place of one for each.
class LayerPlan {
 public:
  LayerPlan(const LayerRouting& routing, Pass pass, std::vector<std::string> gemms,
            bool grouped = false)
      : routing_(routing), pass_(pass), gemms_(std::move(gemms)), grouped_(grouped) {}

  void append(Plan& plan, const Phases& out, const Phases& back) const {
    OpId arrived;
    for (const auto& rows : out) arrived = add_exchange(plan, Stage::dispatch, rows, {});
    std::vector<OpId> done;
    for (const std::string& name : gemms_) {
      if (grouped_) {
        std::vector<Kernel> each;
        for (int gpu = 0; gpu < plan.gpus; ++gpu) {
          each.push_back(GroupedGemm{rows_of(gpu), 8, 8, DataType::bf16});
        }
        Op op = kernels(name, {}, {arrived.value}, Kernels(std::move(each)));
        op.group = Group::first(plan.gpus);
        place(op, Stage::experts);
        done.push_back(plan.add(std::move(op)));
        continue;
      }
      for (int gpu = 0; gpu < plan.gpus; ++gpu) {
        Op op = kernel(name, gpu, {arrived.value}, GroupedGemm{rows_of(gpu), 8, 8, DataType::bf16});
        place(op, Stage::experts);
        done.push_back(plan.add(std::move(op)));
      }
    }
    for (const auto& rows : back) {
      add_exchange(plan, Stage::combine, rows, std::exchange(done, {}));
    }
  }

 private:
  void place(Op& op, Stage stage) const {
    op.key.layer = routing_.layer;
    op.key.pass = pass_;
    op.key.stage = stage;
  }
  OpId add_exchange(Plan& plan, Stage stage, const std::vector<RowMove>& rows,
                    std::vector<OpId> after) const {
    Op op = exchange(name_of(stage), {}, ByteMatrix());
    place(op, stage);
    op.group = Group::first(plan.gpus);
    Exchange work;
    work.rows = rows;
    fill_traffic(work, plan.gpus);
    op.work = std::move(work);
    op.after = std::move(after);
    return plan.add(std::move(op));
  }
  std::vector<std::int64_t> rows_of(int gpu) const {
    const Placement& placement = routing_.assignment->placement();
    std::vector<std::int64_t> rows(static_cast<std::size_t>(placement.slots_on(GpuId(gpu))));
    for (std::size_t token = 0; token < routing_.chosen.size(); ++token) {
      for (const ExpertId expert : routing_.chosen[token]) {
        const SlotId slot = routing_.assignment->slot(routing_.source[token], expert);
        if (placement.gpu_of(slot) != GpuId(gpu)) continue;
        ++rows[slot.index() - placement.first_slot(GpuId(gpu)).index()];
      }
    }
    return rows;
  }

  const LayerRouting& routing_;
  Pass pass_;
  std::vector<std::string> gemms_;
  bool grouped_;
};

}  // namespace moesim::test
