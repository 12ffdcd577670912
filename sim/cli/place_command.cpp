// SPDX-License-Identifier: Apache-2.0
// moesim place: runs one planner on loads from a JSON file. docs/placement.md says what each
// planner reads and writes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/cli/commands.h"
#include "sim/mechanism/placement/fsep/planner.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/llep.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// Some times what clusters have: files of a few bytes may claim more than fits into memory.
constexpr int most_gpus = 1 << 20, most_slots = 1 << 20, most_slots_of_all_layers = 1 << 21;

/// A whole number from 1 to `most`.
int size_in(const Json& input, const char* key, int most) {
  const Json& value = input.at(key);
  if (!value.is_number()) return value.get<int>();  // throws what says so
  const double number = value.get<double>();
  if (number >= 1 && number <= most && number == std::floor(number)) {
    return static_cast<int>(number);
  }
  throw Error(
      fmt::format("'{}' is {}; it is a whole number from 1 to {}", key, value.dump(), most));
}

/// Throws Error if a load is negative.
template <class Number>
std::vector<Number> loads_in(const Json& row, const char* key) {
  std::vector<Number> loads = row.get<std::vector<Number>>();
  if (std::ranges::any_of(loads, [](Number load) { return load < 0; })) {
    throw Error(fmt::format("{} has a load below 0", key));
  }
  return loads;
}

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
  const fsep::SlotGrid grid{size_in(input, "devices", most_gpus),
                            size_in(input, "devices_per_node", most_gpus),
                            size_in(input, "slots_per_device", most_slots)};
  if (static_cast<std::int64_t>(grid.ranks) * grid.slots_per_rank > most_slots) {
    throw Error(fmt::format("{} devices of {} slots each: at most {} slots are possible",
                            grid.ranks, grid.slots_per_rank, most_slots));
  }
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
  const char* const key = "expert_load_per_layer";
  const eplb::Shape shape{size_in(input, "physical_slots", most_slots),
                          size_in(input, "expert_groups", most_slots),
                          size_in(input, "nodes", most_gpus), size_in(input, "gpus", most_gpus)};
  const std::size_t all = input.at(key).size() * static_cast<std::size_t>(shape.slots);
  if (all > most_slots_of_all_layers) {
    throw Error(fmt::format("{} layers of {} slots each: at most {} slots are possible",
                            input.at(key).size(), shape.slots, most_slots_of_all_layers));
  }
  Json placed = Json::array(), copies = Json::array(), slots = Json::array();
  for (const Json& row : input.at(key)) {
    const auto loads = loads_in<double>(row, key);
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
  const auto counts = loads_in<std::int64_t>(input.at("expert_load"), "expert_load");
  const llep::Plan plan = llep::plan(counts, size_in(input, "gpus", most_gpus), parameters);
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
  const Json given = parse_json(read_file_or_input(file), {file, 1, "docs/placement.md shows one"});
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
  command.add_option("--loads", options->loads, "loads and sizes as JSON; - is standard input")
      .required();
  command.callback([options] { fmt::print("{}", place(options->policy, options->loads)); });
}

}  // namespace moesim
