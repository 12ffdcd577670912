// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/scenario_flags.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"

namespace moesim {
namespace {

/// Names have no commas; a file that has one is taken as it is.
std::vector<std::string> split(const std::vector<std::string>& given) {
  std::vector<std::string> values;
  for (const std::string& text : given) {
    std::size_t begin = 0;
    const bool whole = is_there(text);
    for (auto end = text.find(','); !whole && end != std::string::npos;
         end = text.find(',', begin)) {
      values.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    values.push_back(text.substr(begin));
  }
  return values;
}

void add_list(std::vector<Override>& flags, const std::string& key,
              const std::vector<std::string>& given) {
  if (given.empty()) return;
  const std::vector<std::string> values = split(given);
  flags.push_back({key, nlohmann::json(values).dump(),
                   fmt::format("--{} {}", key, fmt::join(given, fmt::format(" --{} ", key)))});
}

}  // namespace

void ScenarioFlags::add_text(CommandLine& command, const std::string& flag, const std::string& key,
                             bool quoted, const std::string& description) {
  const auto keep = [this, flag, key, quoted](const std::string& value) {
    flags_.push_back({key, quoted || value.empty() ? nlohmann::json(value).dump() : value,
                      fmt::format("{} {}", flag, value)});
  };
  command.add_option(flag, keep, description);
}

void ScenarioFlags::add_to(CommandLine& command) {
  const auto keep_file = [this](const std::string& path) {
    if (path.empty()) throw Error("the name of the scenario file is empty");
    file_ = path;
  };
  command.add_option("SCENARIO", keep_file,
                     "scenario file (YAML), or the name of a shipped one; flags win over it");
  command
      .add_option("--topology", topology_,
                  "cluster: a name of `moesim list topologies` or a file; several: a,b")
      .one_value_each();
  add_text(command, "--model", "model", true,
           "MoE architecture: a name of `moesim list models` or a file");
  add_text(command, "--trace", "trace", true,
           "routing trace: a folder, or a name of `moesim list traces`");
  command
      .add_option("--policy", policy_,
                  "policy: a name of `moesim list policies` or a file; several: a,b")
      .one_value_each();
  command.add_option("--fidelity", fidelity_, "port (default), flow or analytic; several: a,b")
      .one_value_each();
  add_text(command, "--p2p-order", "p2p_order", true,
           "at fidelity flow: all-at-once (default), or nccl: 8 peers at a time in NCCL's order");
  add_text(command, "--ep", "ep", false,
           "expert-parallel degree: ranks of an EP group (default: as large as fits)");
  add_text(command, "--tokens-per-rank", "tokens_per_rank", false,
           "tokens of a rank in a step (default: the largest number that every rank has)");
  add_text(command, "--repeat", "repeat", false,
           "how often every recorded step is played (default 1)");
  add_text(command, "--steps", "steps", true,
           "all (default), one step, or a range: 0:10 is the first ten");
  add_text(command, "--warmup", "warmup", false,
           "steps before these that planners see and no figure counts (default 0)");
  command.add_option("--layers", layers_, "all (default), recorded, or model layer numbers 1,2,3")
      .separated_by(',')
      .one_value_each();
  add_text(command, "--pass", "pass", true, "forward, or forward+backward (default)");
  add_text(command, "--attention", "attention", false,
           "true (default): computes the model's attention, too; or false");
  add_text(
      command, "--memory", "memory", true,
      "what must fit into a GPU: check (default): the replayed layers; model: all MoE layers of "
      "the model; ignore: nothing");
  add_text(command, "--accumulate", "accumulate", false,
           "N: sums expert gradients over the EP groups every N-th step (default 1); or never");
  add_text(command, "--gradient-bytes", "gradient_bytes", false,
           "bytes of the gradient of an expert parameter (default 2)");
  add_text(command, "--optimizer-bytes", "optimizer_bytes", false,
           "bytes of the optimizer state of an expert parameter (default 12)");
  command
      .add_option("--set", set_,
                  "changes an input, after the changes of the file: topology.PATH=VALUE, "
                  "model.PATH=VALUE, gpu.PATH=VALUE, policy.PATH=VALUE; one of several: "
                  "policy:NAME.PATH=VALUE")
      .one_value_each();
}

Scenario ScenarioFlags::read() const {
  std::vector<Override> flags = flags_;
  add_list(flags, "topology", topology_);
  add_list(flags, "policy", policy_);
  add_list(flags, "fidelity", fidelity_);
  const bool word = layers_.size() == 1 && !layers_[0].empty() &&
                    layers_[0].find_first_not_of("0123456789") != std::string::npos;
  if (!layers_.empty()) {
    const std::string list = fmt::format("[{}]", fmt::join(layers_, ", "));
    flags.push_back({"layers", word ? nlohmann::json(layers_[0]).dump() : list,
                     fmt::format("--layers {}", fmt::join(layers_, ","))});
  }
  for (const std::string& change : set_) flags.push_back({"set", change, "--set " + change});
  return read_scenario(file_, flags);
}

}  // namespace moesim
