// SPDX-License-Identifier: Apache-2.0
// What rows of iterations say of their scenario, and what tables of them share: machines and
// policies (papers/shared).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/evidence/paper_flags.h"

namespace moesim {

/// All that is said of an iteration but its result: what a row says, on top of what its table and
/// the row that it is like say.
struct RowKeys {
  PaperFlags flags;  // of the scenario
  std::string policy;
  int gpus = 0;
  std::optional<int> stage = {};
  std::string fitted = {}, recorded = {};
  bool all_scores = false, whole = false;
};

/// Reads all keys of a mapping but `others`, which are somebody else's.
void add_row_keys(const YamlMap& map, const std::vector<std::string>& others, RowKeys& keys);

/// A cluster, of as many nodes as a row has GPUs for.
struct RowMachine {
  std::string name;
  int gpus_per_node = 0;
  std::string adapters;  // kind of its network adapters; empty: unnamed
  PaperFlags flags;
  std::vector<std::string> left_out = {};  // changes that take its measured kernels back
};

struct RowPolicy {
  std::string name, policy;
  PaperFlags flags;
  /// What exchanges reach on adapters of a kind where groups of experts span nodes.
  std::vector<std::pair<std::string, std::string>> between_nodes = {};
  std::vector<std::string> merged = {};  // changes where the schedule merges passes
};

struct SharedRows {
  RowKeys common;
  std::vector<RowMachine> machines;
  std::vector<RowPolicy> policies;

  /// nullptr: no policy of that name.
  const RowPolicy* policy(const std::string& name) const;
};

/// Reads `machines` and `policies` of a table, and papers/shared/NAME.yaml if its key `shared` says
/// so; what the table says wins. `path` is its file. Throws Error with all mistakes of the shared
/// file; those of the table are recorded.
SharedRows read_shared_rows(const YamlMap& table, const std::string& path);

}  // namespace moesim
