// SPDX-License-Identifier: Apache-2.0
// The ops of one MoE layer, forward and backward, from the rows that its dispatch moves.
#pragma once

#include <string>
#include <vector>

#include "sim/model/moe_model.h"
#include "sim/plan/plan.h"
#include "sim/policy/dispatch.h"

namespace moesim {

/// All that a plan needs to know of one replayed layer.
struct LayerWork {
  int number = 0;  // model layer number
  const Dispatch* dispatch = nullptr;
  Assignment assignment;
  RowCounts counts;
  std::vector<std::vector<RowMove>> rows;     // [phase], empty unless explicit rows were asked for
  std::vector<std::int64_t> tokens_per_rank;  // [rank]
};

/// Appends ops to a plan. Compute of a layer on one GPU: gate, shared experts, permute | dispatch |
/// sort, fc1, activation, fc2, reduce | combine | unpermute; backward mirrors it with data and
/// weight gradients. Between the phases of a dispatch every GPU relays what it passes on. Kernels
/// without work are left out; an exchange that would move nothing although its ranks hold tokens
/// throws std::logic_error.
class LayerOps {
 public:
  LayerOps(Plan& plan, const MoeModel& model, const std::vector<LayerWork>& layers);
  void forward(int layer);
  void backward(int layer);

 private:
  struct Step;  // the layer and pass that ops are being added for
  /// Rows of one phase per GPU, local copies included.
  struct RowSums {
    std::vector<std::int64_t> sent, arrived;
  };
  static std::vector<RowSums> row_sums(const RowCounts& counts);
  /// What one GPU's experts get to do.
  struct ExpertWork {
    std::vector<std::int64_t> m;  // [slot] choices
    std::int64_t rows = 0;        // their sum
    std::int64_t arrived = 0;     // rows that the last phase brought
  };
  ExpertWork expert_work(const Step& s, GpuId gpu) const;
  void before_dispatch(const Step& s);
  void experts_forward(const Step& s);
  void experts_backward(const Step& s);
  void after_combine(const Step& s);
  void add_compute(const Step& s, GpuId gpu, const std::string& name, Stage stage, Kernel kernel);
  void add_memory(const Step& s, GpuId gpu, const std::string& name, Stage stage,
                  std::int64_t read_rows, std::int64_t written_rows, std::int64_t row_elements);
  void add_exchanges(const Step& s, Stage stage);
  void add_relays(const Step& s, Stage stage, int arrived_phase, int sent_phase);
  void add_phase(const Step& s, Stage stage, int phase);
  void add_exchange(Op op, Exchange exchange);

  Plan& plan_;
  const MoeModel& model_;
  const std::vector<LayerWork>& layers_;
  std::vector<std::vector<RowSums>> sums_;  // [layer][phase]
  std::vector<OpId> last_compute_;   // [gpu] newest compute op since its last exchange, else none
  std::vector<OpId> last_exchange_;  // [gpu] newest exchange that no compute op waits for yet
};

}  // namespace moesim
