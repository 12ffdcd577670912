// SPDX-License-Identifier: Apache-2.0
// Launches in the containers of Kubernetes, and YAML of two servers.
#include "sim/launched/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/launched/launched_cluster.h"
#include "tests/error_of.h"
#include "tests/launched/launched_keys.h"

namespace moesim {
namespace {

using testing::HasSubstr;

Launched launched_by_yaml(const std::string& manifest) {
  return launch_of_text(manifest, "a.yaml");
}

TEST(Manifests, OfACommandInAShell) {
  const Launched launched = launched_by_yaml(
      "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nspec:\n"
      "  leaderWorkerTemplate:\n    size: 2\n    workerTemplate:\n      spec:\n"
      "        containers:\n        - name: vllm\n          image: vllm/vllm-openai:v0.11.0\n"
      "          env:\n          - {name: VLLM_ALL2ALL_BACKEND, value: deepep_high_throughput}\n"
      "          command: [\"/bin/sh\", \"-c\"]\n          args:\n          - >-\n"
      "            vllm serve org/model --data-parallel-size $(($(LWS_GROUP_SIZE) * 8))\n"
      "            --enable-expert-parallel --max-num-batched-tokens 4096\n"
      "          resources: {limits: {nvidia.com/gpu: 8}}\n");
  EXPECT_EQ(values_in(launched, {"parallel.ep", "policy", "serving.engine.max_tokens"}),
            "16 deepep-normal 4096");
  EXPECT_EQ(launched.model, "org/model");
  EXPECT_TRUE(launched.not_simulated.empty());
}

TEST(Manifests, OfWordsBehindOtherDocuments) {
  const Launched launched = launched_by_yaml(
      "apiVersion: v1\nkind: Service\nspec: {ports: [{port: 80}]}\n---\n"
      "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n"
      "      containers:\n      - name: proxy\n        image: nginx\n"
      "      - name: sglang\n        command: [python3, -m, sglang.launch_server]\n"
      "        args: [--model-path, org/it's, --tp, \"4\", --host, $(POD_IP)]\n");
  EXPECT_EQ(launched.software, "SGLang");
  EXPECT_EQ(value_in(launched, "parallel.tp"), "4");
  EXPECT_EQ(launched.model, "org/it's");
}

TEST(Manifests, OfAnImageThatIsTheEngine) {
  const Launched launched = launched_by_yaml(
      "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai:latest\n"
      "    args: [--model, a/b, -tp, \"2\"]\n");
  EXPECT_EQ(value_in(launched, "parallel.tp"), "2");
  EXPECT_EQ(launched.model, "a/b");
}

TEST(Manifests, ErrorsNameTheLineOfTheCommand) {
  const std::string pod =
      "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    command: ";
  EXPECT_THAT(error_of([&] { launched_by_yaml(pod + "[vllm, serve, m, -tp, two]\n"); }),
              HasSubstr("a.yaml:6: error: 'two' is not a whole number"));
  EXPECT_THAT(error_of([&] { launched_by_yaml(pod + "[sleep, inf]\n"); }),
              HasSubstr("nothing in it launches a known software"));
}

TEST(Manifests, AreNotYamlOfArguments) {
  EXPECT_FALSE(script_of_manifest("tensor_parallel_size: 8\n", "a.yaml"));
  EXPECT_FALSE(script_of_manifest("apiVersion: 1\ncontainers: []\n", "a.yaml"));
}

const std::string two_servers =
    "hostname: localhost\nbackend: pytorch\ncontext_servers:\n  num_instances: 2\n"
    "  tensor_parallel_size: 4\n  moe_expert_parallel_size: 4\n  max_num_tokens: 4096\n"
    "generation_servers:\n  num_instances: 1\n  tensor_parallel_size: 8\n"
    "  moe_expert_parallel_size: 8\n  enable_attention_dp: true\n  max_batch_size: 256\n";

TEST(TwoServers, AreTwoPools) {
  Launched launched = launched_by_yaml(two_servers);
  EXPECT_EQ(values_in(launched, {"serving.instances", "parallel.tp", "parallel.ep",
                                 "serving.decode.parallel.tp", "serving.decode.parallel.ep",
                                 "serving.decode.serving.engine.max_sequences"}),
            "{prefill: 2, decode: 1} 4 4 1 8 256");
  EXPECT_THAT(launched.assumed,
              testing::Contains("generation_servers do not say serving.engine.max_tokens: as "
                                "context_servers"));
  fit_topology("h100-rail", launched);
  EXPECT_EQ(value_in(launched, "policy"), "megatron-allgather");
  EXPECT_EQ(value_in(launched, "serving.decode.policy"), "nvlink-one-sided");
  EXPECT_EQ(value_in(launched, "serving.decode.set"),
            "[topology.nodes=1, topology.node.gpus=8, topology.node.nics.count=8]");
}

TEST(TwoServers, OfAsManyGpusShareTheTopology) {
  Launched launched = launched_by_yaml(
      "context_servers: {tensor_parallel_size: 8, moe_expert_parallel_size: 4}\n"
      "generation_servers: {tensor_parallel_size: 8}\n");
  EXPECT_EQ(values_in(launched, {"parallel.etp", "serving.decode.parallel.etp"}), "2 8");
  fit_topology("h100-rail", launched);
  EXPECT_EQ(value_in(launched, "serving.decode.set"), "-");
}

}  // namespace
}  // namespace moesim
