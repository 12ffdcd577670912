// SPDX-License-Identifier: Apache-2.0
// What a dispatch is besides where its rows go: one value, which wrappers hand on as it is.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/mechanism/rank_space.h"
#include "sim/model/moe_model.h"
#include "sim/plan/loss.h"
#include "sim/plan/plan.h"

namespace moesim {

/// An exchange during the rows of a phase, such as of counts or gate weights.
struct SideExchange {
  std::string name;     // "counts", "probs"
  Bytes per_row;        // for every row of the phase, on the path that the row takes
  Bytes per_pair;       // between any two GPUs of a communicator
  bool before = false;  // the rows wait for it, and the host reads it
  Seconds host{0};      // if so, from its end until the host has read it and launched the rows
  /// Who exchanges what is between any two GPUs; null: the communicators of the phase.
  std::shared_ptr<const Communicators> among = nullptr;
  bool operator==(const SideExchange&) const = default;
};

/// Kernels that a dispatch runs during its exchanges.
struct LocalWork {
  bool pack = true;   // rows are gathered into a send buffer, and spread from it on the way back
  bool relay = true;  // a kernel between a phase and the one before it
  // Kernels copy rows into the order of the experts and add up results. If not, the experts'
  // products read and write rows through indices (scatter and merge GEMM of Occult).
  bool arrange = true;
  // One more copy of what is sent before the first phase, of what arrived after the last one.
  bool transpose_sent = false, transpose_arrived = false;
  /// Rows travel in fewer bytes: a kernel encodes them before, another decodes them after each way.
  bool coded = false;
  bool sums = false;  // the kernel that brings rows back adds up those of a token
  bool operator==(const LocalWork&) const = default;
};

/// What a GPU needs at least for the rows that a phase brings it from one other, however few bytes
/// they are: a GPU waits for its slowest sender.
struct MinimumTime {
  std::int64_t turn = 1;  // rows that go together
  Seconds per_turn{0};
  Seconds of(std::int64_t rows) const {
    return static_cast<double>((rows + turn - 1) / turn) * per_turn;
  }
  bool operator==(const MinimumTime&) const = default;
};

/// One exchange of a dispatch; the combine mirrors it.
struct PhaseShape {
  std::string name;
  /// Who exchanges with whom: every GPU is in exactly one.
  Communicators communicators;
  int previous = -1;                  // the phase whose rows it sends on; -1: from their sources
  Stream stream = Stream::ep;         // phases of different streams may overlap
  MinimumTime dispatch_minimum = {};  // of the dispatch ...
  MinimumTime combine_minimum = {};   // ... and of the combine
  const MinimumTime& minimum(Stage stage) const {
    return stage == Stage::combine ? combine_minimum : dispatch_minimum;
  }
  bool operator==(const PhaseShape&) const = default;
};

/// What travels in all phases of one stage and pass.
struct WireFormat {
  Bytes row;                             // of one row, metadata included
  std::vector<SideExchange> sides = {};  // what else each phase exchanges
  bool operator==(const WireFormat&) const = default;
};

struct DispatchShape {
  /// Without phases; rows are activations of the model, nothing else travels.
  explicit DispatchShape(const MoeModel& model);
  /// Adds a phase that sends on the rows of the one before it.
  PhaseShape& add(std::string name, Communicators communicators);

  WireFormat& wire(Stage stage, Pass pass);
  const WireFormat& wire(Stage stage, Pass pass) const;
  int size() const { return static_cast<int>(phases.size()); }
  const PhaseShape& phase(int p) const { return phases[static_cast<std::size_t>(p)]; }
  bool operator==(const DispatchShape&) const = default;

  std::vector<PhaseShape> phases;  // each after the one whose rows it sends on
  LocalWork local_work;
  std::array<WireFormat, 4> wires;  // dispatch and combine, forward and backward each
  int sms = 0;                      // multiprocessors that the exchanges of rows take
  RowForm rows = {};                // the narrowest of all wires
};

/// Phases by the phase whose rows they send on.
struct PhaseOrder {
  explicit PhaseOrder(const DispatchShape& shape);
  std::vector<int> first;                      // that take rows from their sources
  std::vector<std::vector<int>> continued_by;  // [phase]
  /// The most hops of any row.
  std::size_t most_hops() const { return most_hops(first); }

 private:
  std::size_t most_hops(const std::vector<int>& phases) const;
};

}  // namespace moesim
