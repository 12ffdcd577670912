// SPDX-License-Identifier: Apache-2.0
// Measured kernel times of a GPU model, and times of kernels between those measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/model/kernel.h"
#include "sim/model/op_kind.h"

namespace moesim {

/// Times by a size (> 0). Between two points time is linear in the logarithms of both, as kernels
/// that change from launch-bound to throughput-bound do. Below the first point its time holds (the
/// launch). Above the last one it rises as between the last two, at most in proportion to the size:
/// a launch is paid once. A single point tells no launch, and time is in proportion to the size.
class TimeCurve {
 public:
  void add(double size, Seconds time) { points_[size] = time; }  // time > 0
  Seconds at(double size) const;
  bool empty() const { return points_.empty(); }
  const std::map<double, Seconds>& points() const { return points_; }

 private:
  Seconds slope_beyond() const;  // per unit of size

  std::map<double, Seconds> points_;
};

/// "" for a table of any op.
inline std::string name_of(const std::optional<OpType>& op) { return op ? name_of(*op) : ""; }

/// Grouped GEMMs of one shape.
struct GemmTable {
  std::optional<OpType> op;  // the ops that were measured ("fc1-wgrad"); none: any
  std::int64_t n = 0, k = 0;
  DataType type = DataType::bf16;
  std::map<double, TimeCurve> groups;  // number of groups -> time by the rows m of each

  /// Time of `count` groups of m rows each: the curves' times at m as a curve over the groups.
  Seconds time(double count, double m) const;
  /// The sum over the groups with rows of time(their number, m_g) / their number; 0 without any.
  Seconds time(const std::vector<std::int64_t>& m) const;
};

/// Kernels bound by memory traffic.
struct MemoryTable {
  std::optional<OpType> op;  // as above
  TimeCurve bytes;           // read and written
};

struct KernelTables {
  std::vector<GemmTable> gemm;
  std::vector<MemoryTable> memory_bound;

  /// The table of the GEMM's type, n and k; of several that of its op. If there is none, the one
  /// with the nearest n x k (in its logarithm; of several that of its op), whose times the caller
  /// multiplies by the ratio of n x k. Null when no table is of the type. A recomputed op counts as
  /// the op: the same kernel runs again.
  const GemmTable* find(const GroupedGemm& gemm, const OpType& op) const;
  /// The table of the op, else that of any op; null when there is neither.
  const MemoryTable* find_memory(const OpType& op) const;
};

/// The keys `gemm` and `memory_bound` of a GPU model.
KernelTables read_kernel_tables(const YamlMap& map);

}  // namespace moesim
