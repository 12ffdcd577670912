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

void NamedScenario::add_to(CommandLine& command, const std::string& about) {
  command.add_option("--scenario", file_, about).required();
  command
      .add_option("--set", set_,
                  "changes a key of the scenario, or an input: policy=laer, topology.nodes=4")
      .one_value_each();
}

std::vector<Override> NamedScenario::overrides() const {
  std::vector<Override> changes;
  for (const std::string& text : set_) {
    const Override change = parse_override(text);
    const bool of_an_input = change.path.find_first_of(".:") != change.path.npos;
    changes.push_back(of_an_input ? Override{"set", text, "--set " + text} : change);
  }
  return changes;
}

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
  command.group("Inputs");
  command
      .add_option("--topology", topology_,
                  "cluster: a name of `moesim list topologies` or a file; several: a,b")
      .one_value_each();
  add_text(command, "--model", "model", true,
           "model: a name of `moesim list models` or `list dense-models`, or a file");
  add_text(command, "--trace", "trace", true,
           "routing trace: a folder, or a name of `moesim list traces`");
  const auto keep_synth = [this](const std::string& text) {
    for (const std::string& part : split({text})) {
      if (part.find('=') == std::string::npos || part.starts_with('=')) {
        throw Error(fmt::format("--synth {}: expected KEY=VALUE", part),
                    "for example --synth skew=0.5,tokens=32768");
      }
      Override flag = parse_override("synth." + part);
      flag.flag = "--synth " + part;
      flags_.push_back(std::move(flag));
    }
  };
  command.add_option("--synth", keep_synth,
                     "draws the routing in place of --trace: skew=0.5,tokens=32768,seed=7, and "
                     "what `moesim trace synth` takes; experts and top_k are the model's");
  command
      .add_option("--policy", policy_,
                  "policy: a name of `moesim list policies` or a file; several: a,b")
      .one_value_each();
  add_text(
      command, "--transport", "transport", true,
      "what carries exchanges: own (default: that of each policy), ideal (links as the topology "
      "has them), a name of `moesim list transports` or a file");
  add_changes(command);
  command.group("Steps");
  add_steps(command);
  command.group("Iterations");
  add_iteration(command);
  command.group("Options");
}

void ScenarioFlags::add_steps(CommandLine& command) {
  command
      .add_option("--fidelity", fidelity_,
                  "port (default), flow, simgrid or analytic; several: a,b")
      .one_value_each();
  add_text(
      command, "--p2p-order", "p2p_order", true,
      "at flow and simgrid: all-at-once (default), or nccl: 8 peers at a time in NCCL's order");
  add_text(command, "--ep", "ep", false,
           "expert-parallel degree: ranks of an EP group (default: as large as fits, for policies "
           "of fsep the cluster; for iterations 1)");
  add_text(command, "--tokens-per-rank", "tokens_per_rank", false,
           "tokens of a rank in a step (default: as many as every rank has)");
  add_text(command, "--repeat", "repeat", false,
           "how often every recorded step is played (default 1)");
  add_text(command, "--steps", "steps", true,
           "all (default), one step, or a range: 0:10 is the first ten");
  add_text(command, "--warmup", "warmup", false,
           "earlier steps that planners see but no figure counts (default 0)");
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
           "bytes of the gradient of an expert parameter (default 2; iterations: by software)");
  add_text(command, "--optimizer-bytes", "optimizer_bytes", false,
           "bytes of the optimizer state of an expert parameter (default 12; iterations: by "
           "software)");
}

void ScenarioFlags::add_changes(CommandLine& command) {
  command
      .add_option("--set", set_,
                  "changes an input, after the changes of the file: topology.PATH=VALUE, "
                  "model.PATH=VALUE, gpu.PATH=VALUE, policy.PATH=VALUE, transport.PATH=VALUE; one "
                  "of several: policy:NAME.PATH=VALUE; or a key of an iteration: parallel.dp=4; "
                  "for one policy: scenario:NAME.parallel.tp=8")
      .one_value_each();
}

void ScenarioFlags::add_iteration(CommandLine& command) {
  add_text(command, "--tp", "parallel.tp", false,
           "tensor-parallel degree (default 1); for sizes without a flag: --set "
           "parallel.KEY=VALUE");
  add_text(command, "--cp", "parallel.cp", false, "context-parallel degree (default 1)");
  add_text(command, "--pp", "parallel.pp", false, "pipeline stages (default 1)");
  add_text(command, "--vpp", "parallel.vpp", false, "chunks of layers per stage (default 1)");
  add_text(command, "--etp", "parallel.etp", false,
           "tensor-parallel degree of experts (default: tp)");
  add_text(command, "--global-batch", "batch.global", false, "sequences of an iteration");
  add_text(command, "--micro-batch", "batch.micro", false, "sequences of a microbatch (default 1)");
  add_text(command, "--sequence", "batch.sequence", false, "tokens of a sequence");
  add_text(command, "--pipeline", "pipeline", true,
           fmt::format("{} (default: 1f1b, with --vpp interleaved)",
                       fmt::join(pipeline_kind_names(), ", ")));
  command
      .add_option("--recompute", recompute_,
                  fmt::format("what runs again in the backward pass: none (default), {}; "
                              "several: a,b",
                              fmt::join(recompute_module_names(), ", ")))
      .one_value_each();
  add_text(command, "--software", "software", true,
           "training program: a name of `moesim list software` or a file (default: "
           "megatron-core)");
  add_text(command, "--zero", "zero", false,
           "what replicas share: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters "
           "too (default: by software, mostly 1)");
  command
      .add_option("--routing", routing_,
                  "recorded (default), or balanced: equally many tokens for every expert; "
                  "several: a,b")
      .one_value_each();
}

std::vector<Override> ScenarioFlags::overrides() const {
  std::vector<Override> flags = flags_;
  add_list(flags, "topology", topology_);
  add_list(flags, "policy", policy_);
  add_list(flags, "fidelity", fidelity_);
  add_list(flags, "recompute", recompute_);
  add_list(flags, "routing", routing_);
  const bool word = layers_.size() == 1 && !layers_[0].empty() &&
                    layers_[0].find_first_not_of("0123456789") != std::string::npos;
  if (!layers_.empty()) {
    const std::string list = fmt::format("[{}]", fmt::join(layers_, ", "));
    flags.push_back({"layers", word ? nlohmann::json(layers_[0]).dump() : list,
                     fmt::format("--layers {}", fmt::join(layers_, ","))});
  }
  for (const std::string& change : set_) flags.push_back({"set", change, "--set " + change});
  return flags;
}

Scenario ScenarioFlags::read() const { return read_scenario(file_, overrides()); }

}  // namespace moesim
