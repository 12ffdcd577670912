// SPDX-License-Identifier: Apache-2.0
// Dispatch mechanisms: how a token's copies travel to the GPUs of its experts, phase by phase.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/mechanism/dispatch_shape.h"
#include "sim/mechanism/ep_groups.h"
#include "sim/mechanism/row_table.h"
#include "sim/model/moe_model.h"
#include "sim/plan/assignment.h"
#include "sim/trace/batches.h"

namespace moesim {

class CountedGroups;

/// One layer's tokens on their source ranks: what a dispatch is evaluated on.
struct LayerTokens {
  const Batch& batch;
  IdRows ids;  // by the numbers of the batch's runs
  const Assignment& assignment;
  GpuId first_gpu{0};  // of its rank 0, for messages
  int choices = 0;     // that the gate of a token makes, of those in a row of ids; 0: all

  int choices_asked() const { return choices > 0 ? choices : ids.top_k(); }
};

/// Rows that one layer's dispatch moves; the combine moves the same rows back.
struct RowCounts {
  int gpu_count = 0;
  std::vector<RowTable> phases;     // [phase]
  std::vector<std::int64_t> slots;  // [slot] choices that its expert computes

  // Of dispatches that pad, else empty: rows on the wire and rows computed, padding included.
  std::vector<RowTable> padded_phases;
  std::vector<std::int64_t> padded_slots;

  std::size_t gpus() const { return static_cast<std::size_t>(gpu_count); }
  const std::vector<RowTable>& on_wire() const {
    return padded_phases.empty() ? phases : padded_phases;
  }
  const std::vector<std::int64_t>& computed() const {
    return padded_slots.empty() ? slots : padded_slots;
  }
};

/// Where the rows of a layer go, on the ranks of one EP group.
class RowEvaluation {
 public:
  virtual ~RowEvaluation() = default;
  /// In bulk: row counts without token lists.
  virtual RowCounts count(const LayerTokens& tokens) const = 0;
  /// Explicitly: the rows of every phase, in token order; [phase][row].
  virtual std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const = 0;
};
using RowEvaluationPtr = std::shared_ptr<const RowEvaluation>;

/// What the members of a communicator send each other, members x members, rows as units. Throws
/// std::logic_error if a member sends rows to others.
ByteMatrix traffic_among(const std::vector<GpuId>& members, const RowTable& rows, Bytes unit);

/// A way for token copies to travel: its shape, and an evaluation for every EP group. Mechanisms
/// are defined by one pure function, from which evaluate.h makes both. What wraps a dispatch wraps
/// only its evaluations: its shape and its choice stay.
class Dispatch {
 public:
  /// Shapes and evaluations of the EP groups, whose shapes differ only in communicators.
  Dispatch(EpGroups groups, const std::vector<DispatchShape>& shapes,
           std::vector<RowEvaluationPtr> evaluations);
  /// Which of the options a layer gets.
  using Rule = std::function<std::size_t(const LayerTokens&)>;
  Dispatch(std::vector<std::unique_ptr<Dispatch>> options, Rule rule);

  /// The dispatch for one layer of a step: itself, unless it decides from the layer's routing.
  const Dispatch& choose(const LayerTokens& tokens) const;
  /// The shape on the cluster. Throws std::logic_error if there are options: ask the chosen one.
  const DispatchShape& shape() const;
  /// Rows over the cluster, of the chosen one. `counted` has groups of these ids that the same
  /// dispatch counted before, maybe for another part of the cluster, and gets further ones.
  RowCounts count(const LayerTokens& tokens, CountedGroups& counted) const;
  RowCounts count(const LayerTokens& tokens) const;
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const;

  const std::vector<std::unique_ptr<Dispatch>>& options() const { return options_; }
  /// Puts wrap(evaluation) in the place of every evaluation, those of options included.
  void wrap(const std::function<RowEvaluationPtr(RowEvaluationPtr)>& wrap);
  /// The multiprocessors that its exchanges of rows take, those of options included.
  void set_sms(int sms);
  /// Changes its shape, those of options included.
  void change_shapes(const std::function<void(DispatchShape&)>& change);
  /// The narrowest form of rows on the wire, the same in all options.
  const RowForm& row_form() const { return shape_.rows; }
  /// Why its kernels cannot run on this cluster; empty: they can.
  const std::string& cannot_run() const { return cannot_run_; }
  /// Adds a reason.
  void forbid(const std::string& why) { cannot_run_ += (cannot_run_.empty() ? "" : "; ") + why; }

 private:
  std::optional<EpGroups> groups_;  // unless there are options
  DispatchShape shape_;
  std::vector<RowEvaluationPtr> evaluations_;  // [EP group]
  std::vector<std::unique_ptr<Dispatch>> options_;
  Rule rule_;
  std::string cannot_run_;
};

/// The time of the exchanges of rows one way, phase after phase, the communicators of a phase at
/// once. `counts` are of the whole cluster.
Seconds exchange_time(const RowCounts& counts, const DispatchShape& shape, const EpGroups& groups,
                      Bytes row, bool back = false);

/// The precision of rows that a scenario states: that of the model's activations, or of the GEMMs
/// that take them (by default its weights), whichever is less.
DataType rows_as_stated(const MoeModel& model, std::optional<DataType> gemm_type);

/// What a dispatch may know when it is made; it may keep the model's reference.
struct DispatchContext {
  /// Throws Error unless `ep`, the expert-parallel degree, divides the GPUs.
  DispatchContext(const Topology& topology, const MoeModel& its_model, int ep)
      : groups(topology, ep), model(its_model), stated(rows_as_stated(its_model, {})) {}
  EpGroups groups;
  const MoeModel& model;
  DataType stated;     // of rows (rows_as_stated): those below it are rounded
  bool fused = false;  // its phases are one kernel (Transport::fused): further rounds start nothing
};

}  // namespace moesim
