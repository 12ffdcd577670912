// SPDX-License-Identifier: Apache-2.0
// The expert domains of HybridEP (arXiv 2510.19470): who gathers whose experts, who exchanges
// tokens with whom.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/balance/loads.h"
#include "sim/base/byte_matrix.h"
#include "sim/plan/placement.h"

namespace moesim {

/// One level, coarsest first: `workers` (SF) per worker of the level above, `domain` (S) of them
/// in a row form an expert domain.
struct DomainLevel {
  int workers = 1;
  int domain = 1;
};

enum class DomainRelation { none, all_gather, all_to_all };

/// Which coordinates of two GPUs must agree for them to meet at a level: all others, or the finer
/// ones only, as the paper's algorithm prints. The latter lets GPUs of different nodes exchange
/// over a level that does not join them.
enum class DomainMatch { all_levels, finer };

/// Ordered GPU pairs of one level.
struct DomainPairs {
  std::int64_t all_to_all = 0;
  std::int64_t all_gather = 0;
  bool operator==(const DomainPairs&) const = default;
};

/// Bytes from GPU to GPU, one exchange per level, in the order in which they run.
using LevelExchanges = std::vector<ByteMatrix>;

/// GPUs as workers of nested levels, numbered with the finest level fastest.
class ExpertDomains {
 public:
  /// Throws Error when there is no level or a domain does not divide its level's workers.
  explicit ExpertDomains(std::vector<DomainLevel> levels);

  int gpus() const { return gpus_; }
  int levels() const { return static_cast<int>(levels_.size()); }
  /// The worker of a GPU at a level, within the worker above (Eq. 13).
  int coordinate(GpuId gpu, int level) const;
  DomainRelation relation(GpuId m, GpuId n, int level,
                          DomainMatch match = DomainMatch::all_levels) const;
  DomainPairs pairs(int level, DomainMatch match = DomainMatch::all_levels) const;

  /// Where a token that is at `at` goes at a level on its way to the experts of `home`: the worker
  /// of its own offset in the domain of `home`. After all levels it is on a GPU that holds them.
  GpuId hop(GpuId at, GpuId home, int level) const;
  /// The GPU that serves the tokens of `source` for the experts of `home`.
  GpuId serving(GpuId source, GpuId home) const;

  // Unstated in the paper, ours (matching all levels): level 0 gathers first, each next level
  // forwards what its GPUs hold by then.

  /// The experts that every GPU holds after all gathers, by home GPU; `home` has one row per GPU.
  SlotTable gathered(const SlotTable& home) const;
  /// The all-gathers of experts of `expert` bytes each (compressed or not), level 0 first.
  LevelExchanges gather_exchanges(const SlotTable& home, Bytes expert) const;
  /// The reduce-scatters of the gathered experts' gradients: the gathers backwards, finest first.
  LevelExchanges reduce_exchanges(const SlotTable& home, Bytes gradient) const;
  /// The dispatch of one row per choice, level 0 first; the diagonal is what stays. Every expert
  /// lives on one GPU of `home` (Error). Combine is each matrix transposed, last level first.
  LevelExchanges token_exchanges(const LoadMatrix& loads, const SlotTable& home, Bytes row) const;

 private:
  SlotTable gathered_before(const SlotTable& home, int level) const;
  GpuId moved(GpuId gpu, int level, int coordinate) const;

  std::vector<DomainLevel> levels_;
  std::vector<int> stride_;  // GPUs per worker of each level
  int gpus_ = 1;
};

}  // namespace moesim
