// SPDX-License-Identifier: Apache-2.0
// moesim place: runs one planner on loads from a JSON file. docs/placement.md says what each
// planner reads and writes.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/counted.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/cli/commands.h"
#include "sim/mechanism/placement/fsep/planner.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/llep.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json ids(const std::vector<ExpertId>& experts) {
  Json list = Json::array();
  for (const ExpertId e : experts) list.push_back(e.value);
  return list;
}

Json ids(const SlotTable& slots) {
  Json rows = Json::array();
  for (const auto& gpu : slots) rows.push_back(ids(gpu));
  return rows;
}

LoadMatrix load_matrix(const Json& rows) {
  const auto counts = rows.get<std::vector<std::vector<std::int64_t>>>();
  LoadMatrix loads(static_cast<int>(counts.size()),
                   counts.empty() ? 0 : static_cast<int>(counts[0].size()));
  for (std::size_t g = 0; g < counts.size(); ++g) {
    if (counts[g].size() != counts[0].size()) throw Error("rows of token_counts differ in length");
    for (std::size_t e = 0; e < counts[g].size(); ++e) {
      if (counts[g][e] < 0) throw Error("token_counts has a count below 0");
      loads.at(GpuId(static_cast<int>(g)), ExpertId(static_cast<int>(e))) = counts[g][e];
    }
  }
  return loads;
}

/// Reads the parameters of the planner's cost. If the input leaves one out, LAER-MoE's value holds.
fsep::CostParameters cost_parameters(const Json& input) {
  fsep::CostParameters cost;
  const auto rate = [&](const char* key, BytesPerSecond absent) {
    return BytesPerSecond(1e9 * input.value(key, absent.value * 1e-9));
  };
  cost.same_rank = rate("bw_same_device_GB_per_s", cost.same_rank);
  cost.same_node = rate("bw_intra_node_GB_per_s", cost.same_node);
  cost.other_node = rate("bw_inter_node_GB_per_s", cost.other_node);
  cost.per_token_slot =
      Seconds(1e-3 * input.value("v_comp_ms_per_token_slot", 1e3 * cost.per_token_slot.value));
  cost.token = Bytes(input.value("token_bytes", cost.token.value));
  cost.activation_checkpointing =
      input.value("activation_checkpointing", cost.activation_checkpointing);
  return cost;
}

Json place_laer(const Json& input, bool queue, bool even) {
  const LoadMatrix loads = load_matrix(input.at("token_counts"));
  const fsep::SlotGrid grid{input.at("devices").get<int>(), input.at("devices_per_node").get<int>(),
                            input.at("slots_per_device").get<int>()};
  if (loads.sources() != grid.ranks) {
    throw Error(fmt::format("token_counts has {} for {} devices", counted(loads.sources(), "row"),
                            grid.ranks));
  }
  const fsep::Decision decision =
      fsep::plan(loads, grid, {cost_parameters(input), even, queue, {}});
  const fsep::Candidate& choice = decision.choice();
  Json candidates = Json::array();
  for (const fsep::Candidate& c : decision.candidates) {
    candidates.push_back({{"name", c.name}, {"cost_s", c.cost.total().value}});
  }
  return {{"chosen", choice.name},
          {"replicas", choice.replicas.of},
          {"device_slots", ids(choice.placed.slots)},
          {"cost_s", choice.cost.total().value},
          {"candidates", candidates}};
}

Json place_eplb(const Json& input) {
  const eplb::Shape shape{input.at("physical_slots").get<int>(),
                          input.at("expert_groups").get<int>(), input.at("nodes").get<int>(),
                          input.at("gpus").get<int>()};
  Json placed = Json::array(), copies = Json::array(), slots = Json::array();
  for (const Json& row : input.at("expert_load_per_layer")) {
    const auto loads = row.get<std::vector<double>>();
    const eplb::Layout layout = eplb::rebalance(loads, shape);
    placed.push_back(ids(layout.expert_in));
    copies.push_back(Json::array());
    slots.push_back(Json::array());
    for (std::size_t e = 0; e < loads.size(); ++e) {
      copies.back().push_back(layout.copies(ExpertId(static_cast<int>(e))));
      slots.back().push_back(Json::array());
      for (const SlotId s : layout.copy_of[e]) slots.back().back().push_back(s.value);
    }
  }
  return {{"physical_to_logical_per_layer", placed},
          {"replica_count_per_layer", copies},
          {"logical_to_physical_per_layer", slots}};
}

Json place_llep(const Json& input) {
  llep::Parameters parameters;
  parameters.alpha = input.value("alpha", parameters.alpha);
  parameters.least_chunk = input.value("least_chunk", parameters.least_chunk);
  const auto counts = input.at("expert_load").get<std::vector<std::int64_t>>();
  const llep::Plan plan = llep::plan(counts, input.at("gpus").get<int>(), parameters);
  Json chunks = Json::array();
  for (const auto& of_expert : plan.chunks) {
    chunks.push_back(Json::array());
    for (const llep::Chunk& c : of_expert) {
      chunks.back().push_back({{"gpu", c.gpu.value}, {"first", c.first}, {"last", c.last}});
    }
  }
  return {{"capacity", plan.capacity}, {"chunks_per_expert", chunks}, {"gpu_load", plan.loads}};
}

const std::vector<std::string> planners = {"laer", "laer-even", "laer-uneven", "eplb", "llep"};

Json placed_by(const std::string& policy, const Json& input) {
  if (policy == "eplb") return place_eplb(input);
  if (policy == "llep") return place_llep(input);
  return place_laer(input, policy != "laer-even", policy != "laer-uneven");
}

/// Runs the planner on a file and returns the JSON to print. The file holds the planner's input, or
/// a test vector with that input under the key `input`.
std::string place(const std::string& policy, const std::string& file) {
  const Json given = parse_json(read_file(file), {file, 1, "docs/placement.md shows one"});
  try {
    const Json& input = given.is_object() && given.contains("input") ? given["input"] : given;
    Json document = {{"format", "moesim-placement"}, {"format_version", 1}, {"policy", policy}};
    document.update(placed_by(policy, input));
    return document.dump() + "\n";
  } catch (const Json::exception&) {
    throw error_in(file, fmt::format("is not a whole input of '{}'", policy),
                   "docs/placement.md shows one");
  } catch (const Error& e) {
    throw error_in(file, e.diagnostics().front().message, e.diagnostics().front().hint);
  }
}

struct PlaceOptions {
  std::string policy, loads;
};

}  // namespace

void add_place_command(CommandLine& app) {
  const auto options = std::make_shared<PlaceOptions>();
  CommandLine command =
      app.add_subcommand("place", "Runs a planner on given loads, JSON in and out");
  command.add_option("--policy", options->policy, "whose planner").one_of(planners).required();
  command.add_option("--loads", options->loads, "loads and sizes as JSON").required();
  command.callback([options] { fmt::print("{}", place(options->policy, options->loads)); });
}

}  // namespace moesim
