// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/planned_seeds.h"

#include "sim/base/files.h"
#include "sim/base/gzip.h"
#include "sim/plan/text.h"
#include "sim/scenario/executable_steps.h"
#include "tests/fuzz/scratch_file.h"

namespace moesim::fuzz {
namespace {

/// One step on four GPUs.
struct Planned {
  Planned()
      : scenario(read_scenario("", {{"topology", "hiermoe-a6000", "t"},
                                    {"model", "tiny-moe", "m"},
                                    {"trace", MOESIM_ROOT "/traces/tiny-moe-train", "r"},
                                    {"policy", "[dedup, laer]", "p"},
                                    {"transport", "ideal", "t"},
                                    {"steps", "'2:3'", "s"},
                                    {"tokens_per_rank", "4", "k"},
                                    {"layers", "[1]", "l"},
                                    {"set", "topology.nodes=2", "--set"},
                                    {"set", "topology.node.gpus=2", "--set"}})),
        inputs(open_inputs(scenario)),
        policies(plan_all(scenario, inputs, inputs.clusters[0])) {}

  Scenario scenario;
  Inputs inputs;
  std::vector<SavedPolicy> policies;
};

const Planned& planned() {
  static const Planned p;
  return p;
}

/// A kernel of each kind, lists with ranges and repeats, an exchange that is transposed.
constexpr const char* every_word = R"(moesim-plan 2
name "all \"words\""
gpus 4
op 0 attention-scores label "a b" compute layer 0 forward other gpus 0-3 attention bf16 forward queries 8 attended 4*16 heads 4 kv-heads 2 qk 64 v 64
op 1 fc1 compute layer 0 forward experts gpus 0,2-3 gemm bf16 m 4,3*8;1*4;0,0,0,2 n 64 k 32
op 2 permute copy layer - forward other gpus 1 memory read 10 written 20
op 3 planning compute layer - forward other microbatch 1 chunk 0 part 2 gpus 0-3 host 1000 ns after 0-1
op 4 token-exchange ep layer 0 forward dispatch exchange 0-3 unit 4096 padded transposed rounds 2 sms 8 after 0,2
  0 -> 1:3 2:1
  3 -> 0:7
)";

}  // namespace

std::vector<std::string> plan_texts() {
  std::vector<std::string> texts = {every_word};
  for (const SavedPolicy& policy : planned().policies)
    texts.push_back(to_text(policy.steps[0].plan));
  return texts;
}

namespace {

/// A saved file's text, as the target takes it (saved.cpp).
std::string saved_text(const Scenario& scenario, const Inputs& inputs,
                       const std::vector<SavedPolicy>& policies) {
  const StepsOrigin origin = origin_of(scenario, inputs, inputs.clusters[0], "1.2.3");
  const std::string packed = pack_steps(origin, inputs.clusters[0].topology, policies);
  std::string text = read_gzip(scratch_file("seed.steps", packed));
  text.resize(text.rfind('\n', text.size() - 2) + 1);  // without the hash of it all
  for (std::size_t at = text.find('\n') + 1; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    const std::string hash = hash_of(std::string_view(text).substr(at, end - at));
    const std::size_t listed = text.find(hash);
    text.replace(listed, hash.size(), "@");
    at = end - hash.size() + 1;
  }
  return text;
}

/// Two stages of two GPUs each.
std::string saved_iteration() {
  const Scenario scenario = read_scenario(MOESIM_ROOT "/scenarios/iteration-hardware.yaml",
                                          {{"parallel.ep", "2", "e"},
                                           {"batch.global", "2", "b"},
                                           {"batch.sequence", "4", "s"},
                                           {"set", "topology.nodes=1", "--set"},
                                           {"set", "model.layers=2", "--set"},
                                           {"set", "model.moe_layers.count=1", "--set"}});
  const Inputs inputs = open_inputs(scenario);
  return saved_text(scenario, inputs, plan_all(scenario, inputs, inputs.clusters[0]));
}

}  // namespace

std::vector<std::string> saved_texts() {
  const auto& [scenario, inputs, policies] = planned();
  return {saved_text(scenario, inputs, policies), saved_iteration()};
}

std::vector<std::string> grid_texts() {
  return {R"(topology: hiermoe-a6000
model: tiny-moe
policy: [dedup, laer]
fidelity: [analytic, port]
axes:
  topology.nodes: [1, 2, 4]
  tokens: [8, 16]
  size: [{name: small, tokens_per_rank: 4}, {repeat: 2, layers: [1, 3]}]
synth:
  experts: 8
  top_k: 2
  tokens: ${tokens}
  skew: 0.5
)"};
}

}  // namespace moesim::fuzz
