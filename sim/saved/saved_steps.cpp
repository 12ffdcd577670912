// SPDX-License-Identifier: Apache-2.0
#include "sim/saved/saved_steps.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/json.h"
#include "sim/saved/cluster_json.h"
#include "sim/saved/json_numbers.h"
#include "sim/saved/saved_lines.h"
#include "sim/saved/step_json.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr SavedFormat steps_format{"moesim-steps", 3, "saved steps", "step", "moesim plan --save"};

Json file_json(const InputFile& file) { return {{"name", file.name}, {"xxh3", file.hash}}; }

InputFile read_input(const Json& json) {
  return {json.at("name").get<std::string>(), json.at("xxh3").get<std::string>()};
}

Json header_json(const StepsOrigin& o, const Topology& cluster, const Json& policies) {
  return {{"moesim", o.moesim},
          {"scenario", own_json(o.scenario)},
          {"trace", file_json(o.trace)},
          {"model", file_json(o.model)},
          {"topology", file_json(o.topology)},
          {"model_name", o.model_name},
          {"hidden", o.hidden},
          {"expert_ffn", o.expert_ffn},
          {"gated", o.gated},
          {"layers", o.layers},
          {"steps", o.steps},
          {"tokens_per_rank", o.tokens_per_rank},
          {"backward", o.backward},
          {"iteration", o.iteration},
          {"policies", policies},
          {"cluster", cluster_json(cluster)}};
}

StepsOrigin read_origin(const Json& json) {
  StepsOrigin o;
  o.moesim = json.at("moesim").get<std::string>();
  o.scenario = json.at("scenario").dump(1) + "\n";
  o.trace = read_input(json.at("trace"));
  o.model = read_input(json.at("model"));
  o.topology = read_input(json.at("topology"));
  o.model_name = json.at("model_name").get<std::string>();
  o.hidden = whole_number<std::int64_t>(json.at("hidden"));
  o.expert_ffn = whole_number<std::int64_t>(json.at("expert_ffn"));
  o.gated = json.at("gated").get<bool>();
  o.layers = whole_number<int>(json.at("layers"));
  o.steps = whole_number<int>(json.at("steps"));
  o.tokens_per_rank = whole_number<std::int64_t>(json.at("tokens_per_rank"));
  o.backward = json.at("backward").get<bool>();
  o.iteration = json.at("iteration").get<bool>();
  if (o.hidden < 1 || o.expert_ffn < 1) throw Error("the model has no sizes");
  return o;
}

ExecutableStep read_step_of(const Json& json, const std::string& place, const SavedPolicy& policy,
                            const SavedSteps& of) {
  ExecutableStep step = read_step(json, fmt::format("{}, the plan of {}", place, policy.name));
  if (step.plan.gpus != of.cluster.gpu_count()) {
    throw Error(fmt::format("the plan has {} GPUs, the cluster {}", step.plan.gpus,
                            of.cluster.gpu_count()));
  }
  if (step.iteration.has_value() != of.origin.iteration) {
    throw Error(of.origin.iteration ? "has no iteration, which line 1 says it is"
                                    : "has an iteration, and line 1 says that it is a step");
  }
  return step;
}

}  // namespace

std::string pack_steps(const StepsOrigin& origin, const Topology& cluster,
                       const std::vector<SavedPolicy>& policies) {
  Json list = Json::array();
  std::vector<std::string> lines;
  for (const SavedPolicy& policy : policies) {
    Json& entry = list.emplace_back(Json{{"name", policy.name}});
    if (!policy.unsuitable.empty()) entry["unsuitable"] = policy.unsuitable;
    Json& hashes = entry["steps_xxh3"] = Json::array();
    for (const ExecutableStep& step : policy.steps) {
      lines.push_back(step_json(step).dump() + "\n");
      hashes.push_back(hash_of(lines.back()));
    }
  }
  return pack_lines(steps_format, header_json(origin, cluster, list), lines);
}

SavedSteps read_steps(const std::string& path) {
  SavedLines lines(steps_format, path);
  std::vector<std::vector<std::string>> hashes;  // [policy][step]
  SavedSteps steps = lines.header([&](const Json& header) {
    SavedSteps all{read_origin(header), read_cluster(header.at("cluster")), {}};
    for (const Json& policy : header.at("policies")) {
      all.policies.push_back(
          {policy.at("name").get<std::string>(), policy.value("unsuitable", ""), {}});
      hashes.push_back(policy.at("steps_xxh3").get<std::vector<std::string>>());
    }
    return all;
  });
  for (std::size_t p = 0; p < hashes.size(); ++p) {
    SavedPolicy& policy = steps.policies[p];
    for (const std::string& hash : hashes[p]) {
      policy.steps.push_back(lines.next(hash, [&](const Json& json, const std::string& place) {
        return read_step_of(json, place, policy, steps);
      }));
    }
  }
  lines.end();
  return steps;
}

}  // namespace moesim
