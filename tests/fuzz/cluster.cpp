// SPDX-License-Identifier: Apache-2.0
// Descriptions of clusters by others: what is made of one is a topology.
#include "sim/base/error.h"
#include "sim/topology/import/import.h"
#include "sim/topology/reader.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

constexpr int most_gpus = 256;

void read_and_make(std::string_view bytes) {
  const ClusterFacts facts = parse_facts(std::string(bytes), "a");
  const std::string text = topology_text({facts}, "");
  const std::int64_t hosts = facts.hosts, gpus = facts.node ? facts.node->gpus : 8;
  if (hosts * gpus > most_gpus || gpus > most_gpus) return;  // routes would take all of the time
  try {
    parse_topology(text, "a.yaml", {}, {.gpus = most_gpus, .vertices = 4096, .cables = 8192});
  } catch (const Error& e) {
    // A fabric may be larger than what is allowed here.
    require(text.find("fabric:") != std::string::npos, e.what());
  }
}

}  // namespace

const Target cluster_target{"cluster", read_and_make};

}  // namespace moesim::fuzz
