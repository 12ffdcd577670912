// SPDX-License-Identifier: Apache-2.0
// The keys under `serving` that make a run of an engine out of a pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/planner/iteration/serving_spec.h"
#include "sim/serving/deployment/deployment.h"
#include "sim/serving/deployment/serving_metrics.h"
#include "sim/serving/engine/engine_reader.h"
#include "sim/serving/engine/price_table.h"
#include "sim/serving/requests/request_generator.h"

namespace moesim {

struct IterationSpec;
struct Scenario;

/// What a scenario says of requests and of the engine that answers them; docs/serving.md has the
/// keys.
struct EngineRun {
  EngineModel engine;
  std::string engine_file;         // of its preset; empty: it has none
  bool states_gained = false;      // engine.drafts, not an average of accepted ones
  bool states_rebalance = false;   // next to its preset
  bool states_memory = false;      // serving.memory_fraction; else the engine's rules
  std::string request_file;        // a recorded log; empty: they are drawn
  std::int64_t most_requests = 0;  // of the log; 0: all
  RequestDraw draw;                // of a log only the concurrency
  ServingSla sla;
  std::int64_t warmup = 0;   // requests
  int instances = 1;         // each on the whole topology
  int decode_instances = 0;  // more than 0: the others only compute prompts
  /// Keys of the scenario that differ for the instances that decode; none: they are alike.
  std::vector<Override> decode_keys;
  std::shared_ptr<const Scenario> decode;  // the scenario with these; null without keys
  RouterOptions router;                    // between instances
  /// Of keys and values, per GPU; absent: what the cluster's links carry.
  std::optional<BytesPerSecond> transfer_bandwidth;
  /// Absent: that of the links, or usual_latency where the bandwidth is stated.
  std::optional<Seconds> transfer_latency;
  static constexpr Seconds usual_latency{10e-6};
  std::vector<RankLoss> losses;
  std::optional<LossRate> loss_rate;
  bool exact_prices = false;  // every pass is simulated
  PriceTableOptions prices;
  /// The keys as they are in the file, as JSON; paths as they were found.
  std::vector<std::pair<std::string, std::string>> text;
};

/// Keys under `serving` that need requests.
const std::vector<std::string>& engine_run_keys();
/// Whether `serving` has requests: it is a run of an engine, not one pass.
bool has_requests(const YamlMap& serving);

/// Reads the keys of a run under `serving` of a scenario; mistakes are recorded. `drafts` and
/// `accepted` of the pass say what decoding sequences gain unless the engine does. Paths are looked
/// for next to `file`. `software`: its host, for what that of the engine does not state.
EngineRun read_engine_run(const YamlMap& scenario, const ServingSpec& pass, const std::string& file,
                          const HostModel& software);

/// What the pass does not say and the engine does: its host, and which batches overlap.
void take_from_engine(const EngineRun& run, IterationSpec& spec);

}  // namespace moesim
