// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/scenario_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace moesim {
namespace {

void add_text(std::vector<Override>& flags, const std::string& key, const std::string& value,
              bool quoted) {
  if (value.empty()) return;
  const std::string flag = key == "tokens_per_rank" ? "tokens-per-rank" : key;
  flags.push_back(
      {key, quoted ? nlohmann::json(value).dump() : value, fmt::format("--{} {}", flag, value)});
}

void add_list(std::vector<Override>& flags, const std::string& key,
              const std::vector<std::string>& values) {
  if (values.empty()) return;
  flags.push_back({key, nlohmann::json(values).dump(),
                   fmt::format("--{} {}", key, fmt::join(values, fmt::format(" --{} ", key)))});
}

}  // namespace

void ScenarioFlags::add_to(CLI::App& command) {
  command.add_option("SCENARIO", file_, "scenario file (YAML); flags win over it");
  command
      .add_option("--topology", topology_, "cluster: a name of `moesim list topologies` or a file")
      ->allow_extra_args(false);
  command.add_option("--model", model_,
                     "MoE architecture: a name of `moesim list models` or a file");
  command.add_option("--trace", trace_, "routing trace (a folder)");
  command.add_option("--policy", policy_, "policy: a name of `moesim list policies` or a file")
      ->allow_extra_args(false);
  command.add_option("--fidelity", fidelity_, "port (default), flow or analytic")
      ->allow_extra_args(false);
  command.add_option("--ep", ep_, "expert-parallel degree (default: as large as fits)");
  command.add_option("--tokens-per-rank", tokens_per_rank_,
                     "tokens of a rank in a step (default: the most that every rank has)");
  command.add_option("--repeat", repeat_, "plays every recorded step this often (default 1)");
  command.add_option("--steps", steps_, "all (default), one step, or a range such as 0:10");
  command.add_option("--layers", layers_, "all (default), recorded, or model layer numbers 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--pass", pass_, "forward, or forward+backward (default)");
  command
      .add_option("--set", set_,
                  "changes an input: topology.PATH=VALUE, model.PATH=VALUE, gpu.PATH=VALUE")
      ->allow_extra_args(false);
}

Scenario ScenarioFlags::read() const {
  std::vector<Override> flags;
  add_list(flags, "topology", topology_);
  add_text(flags, "model", model_, true);
  add_text(flags, "trace", trace_, true);
  add_list(flags, "policy", policy_);
  add_list(flags, "fidelity", fidelity_);
  add_text(flags, "ep", ep_, false);
  add_text(flags, "tokens_per_rank", tokens_per_rank_, false);
  add_text(flags, "repeat", repeat_, false);
  add_text(flags, "steps", steps_, true);
  const bool word = layers_.size() == 1 && !layers_[0].empty() &&
                    layers_[0].find_first_not_of("0123456789") != std::string::npos;
  if (word) add_text(flags, "layers", layers_[0], true);
  if (!layers_.empty() && !word) {
    const std::string list = fmt::format("[{}]", fmt::join(layers_, ", "));
    flags.push_back({"layers", list, fmt::format("--layers {}", fmt::join(layers_, ","))});
  }
  add_text(flags, "pass", pass_, true);
  add_list(flags, "set", set_);
  return read_scenario(file_, flags);
}

}  // namespace moesim
