// SPDX-License-Identifier: Apache-2.0
// The expert domains of HybridEP (arXiv 2510.19470): which GPUs gather whose experts, and which
// GPUs exchange tokens. Inside a domain experts travel, between domains tokens do.
#pragma once

#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/plan/placement.h"

namespace moesim {

/// One level of workers, such as nodes or the GPUs of a node. A worker of the level above has
/// `workers` of them (the paper's SF); `domain` consecutive ones (S) form an expert domain.
struct DomainLevel {
  int workers = 1;
  int domain = 1;
};

/// What two GPUs do at a level: nothing, gather each other's experts, or exchange tokens.
enum class DomainRelation { none, all_gather, all_to_all };

/// Whose indices must agree for two GPUs to meet at a level: those of all other levels, or of the
/// finer ones only, as algorithm 1 of the paper prints. By the printed rule GPUs of different nodes
/// meet at the level of GPUs, although it does not join them.
enum class DomainMatch { all, finer };

/// Bytes from GPU to GPU, one exchange per level, in the order in which they run.
using LevelExchanges = std::vector<ByteMatrix>;

/// GPUs as workers of nested levels, coarsest first. GPU numbers count the finest level fastest, as
/// ranks do.
class ExpertDomains {
 public:
  /// Throws Error when there is no level or a domain does not divide its level's workers.
  explicit ExpertDomains(std::vector<DomainLevel> levels, DomainMatch match = DomainMatch::all);

  int gpus() const { return gpus_; }
  int levels() const { return static_cast<int>(levels_.size()); }
  /// The worker of a GPU at a level, within the worker above (Eq. 13).
  int coordinate(GpuId gpu, int level) const;
  /// How two GPUs meet at a level.
  DomainRelation relation(GpuId m, GpuId n, int level) const;

  /// The GPU to which a token at `at` goes at a level, bound for the experts of `home`: the worker
  /// of its own offset in the domain of `home`. After all levels it is on a GPU that holds them. Of
  /// `match` all.
  GpuId hop(GpuId at, GpuId home, int level) const;
  /// The GPU that computes the tokens of `source` for the experts of `home`: the last hop. By the
  /// printed rule two GPUs meet at the finest level at which they differ; unless they gather there,
  /// tokens go straight to the GPU next to `home` that has the offset of `source`.
  GpuId serving(GpuId source, GpuId home) const;

  // The paper leaves the order of several levels open. Here level 0 gathers first, and each next
  // level forwards what its GPUs hold by then; by the printed rule experts come from their homes.

  /// The experts that every GPU holds after all gathers, by home GPU; `home` has one row per GPU.
  SlotTable gathered(const SlotTable& home) const;
  /// The all-gathers of experts of `expert` bytes each (compressed or not), level 0 first.
  LevelExchanges gather_exchanges(const SlotTable& home, Bytes expert) const;
  /// The reduce-scatters of the gathered experts' gradients: the gathers backwards, finest first.
  LevelExchanges reduce_exchanges(const SlotTable& home, Bytes gradient) const;

 private:
  /// Whether `gpu` holds the experts of `from` once the levels before `level` have gathered.
  bool holds(GpuId gpu, GpuId from, int level) const;
  SlotTable gathered_before(const SlotTable& home, int level) const;
  GpuId moved(GpuId gpu, int level, int coordinate) const;

  std::vector<DomainLevel> levels_;
  DomainMatch match_;
  std::vector<int> stride_;  // GPUs per worker of each level
  int gpus_ = 1;
};

}  // namespace moesim
