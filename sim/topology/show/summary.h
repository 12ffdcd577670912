// SPDX-License-Identifier: Apache-2.0
// The figures of `moesim topology show`: levels, capacities, bisection.
#pragma once

#include <string>
#include <vector>

#include "sim/topology/topology.h"

namespace moesim {

/// Least and most of something.
template <class T>
struct Span {
  T least, most;
  bool operator==(const Span&) const = default;
};

/// "50 GB/s", "25 GB/s ... 50 GB/s", or "no limit".
std::string range_text(const Span<BytesPerSecond>& span);

struct ClassSummary {
  std::string name;
  Tier tier;
  int links;  // each direction counts
  Span<BytesPerSecond> bandwidth;
  Span<Seconds> latency;
};

struct LevelSummary {
  std::string name;
  int groups;
  Span<int> gpus;  // per group
};

/// Bandwidth out of a GPU over the links of one class, one direction.
struct GpuBandwidth {
  std::string link_class;
  Span<BytesPerSecond> out;
};

/// The bandwidth from the first half of a level's groups to the second half.
struct Bisection {
  std::string level;  // the outermost level of more than one group; "gpu" when there is none
  int first = 0, second = 0;  // groups on either side
  BytesPerSecond bandwidth;
};

struct Summary {
  std::vector<LevelSummary> levels;
  std::vector<ClassSummary> classes;
  std::vector<GpuBandwidth> gpus;
  Span<BytesPerSecond> node_out;  // what GPUs of a host get out of it; 0 on a single node
  Bisection bisection;
};

Summary summarize(const Topology& topology);
/// One per link class, in their order.
std::vector<ClassSummary> classes_of(const Topology& topology);

/// Max-flow (Boykov and Kolmogorov, PAMI 2004) from the GPUs of one half to those of the other.
/// Throws Error when there is one GPU only.
Bisection bisection_of(const Topology& topology);

/// Max-flow from the GPUs of each host to whatever is outside of it, one direction.
std::vector<BytesPerSecond> out_of_hosts(const Topology& topology);

/// What is legal and probably unwanted: links without their opposite direction or with another
/// bandwidth there, vertices that no route can use.
std::vector<std::string> oddities(const Topology& topology);

}  // namespace moesim
