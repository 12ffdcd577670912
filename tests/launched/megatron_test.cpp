// SPDX-License-Identifier: Apache-2.0
// Flags of Megatron-LM as keys of a scenario.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/launched/launched_keys.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;

Launched megatron(const std::string& flags) {
  return launch_of_text(megatron_launch(flags), "a.sh");
}

std::string error_in_megatron(const std::string& flags) {
  return error_of([&] { megatron(flags); });
}

TEST(MegatronFlags, Parallelism) {
  const Launched launched = megatron(
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 2 "
      "--expert-model-parallel-size 4 --expert-tensor-parallel-size=1 --sequence-parallel "
      "--num-layers-per-virtual-pipeline-stage 3 --use-tp-pp-dp-mapping --micro-batch-size 2");
  EXPECT_EQ(launched.gpus, 16);
  EXPECT_FALSE(launched.serving);
  EXPECT_EQ(values_in(launched,
                      {"parallel.tp", "parallel.pp", "parallel.cp", "parallel.ep", "parallel.etp",
                       "parallel.vpp", "parallel.order", "batch.micro", "batch.sequence"}),
            "2 2 2 4 1 4 tp-cp-ep-pp-dp 2 4096");
  EXPECT_EQ(values_in(megatron("--pipeline-model-parallel-size 2 --num-layers 22 "
                               "--account-for-embedding-in-pipeline-split "
                               "--account-for-loss-in-pipeline-split "
                               "--num-layers-per-virtual-pipeline-stage 3"),
                      {"parallel.vpp"}),
            "4")
      << "24 are shared";
  EXPECT_EQ(values_in(megatron("--pipeline-model-parallel-size 2 "
                               "--num-virtual-stages-per-pipeline-rank 3"),
                      {"parallel.vpp"}),
            "3");
  EXPECT_EQ(values_in(megatron("--pipeline-model-parallel-size 2 "
                               "--pipeline-model-parallel-layout 'Et*12|t*12L'"),
                      {"parallel.layout", "parallel.vpp"}),
            "'Et*12|t*12L' -");
  EXPECT_THAT(megatron("--tensor-model-parallel-size 2").assumed,
              Contains(HasSubstr("--sequence-parallel")));
}

TEST(MegatronFlags, Dispatchers) {
  const auto policy = [](const std::string& flags) {
    return values_in(megatron(flags), {"policy"});
  };
  EXPECT_EQ(policy(""), "megatron");
  EXPECT_EQ(policy("--moe-token-dispatcher-type allgather"), "megatron-allgather");
  EXPECT_EQ(policy("--moe-token-dispatcher-type flex"), "deepep-normal");
  EXPECT_EQ(policy("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep"),
            "hybrid-ep");
  EXPECT_THAT(error_in_megatron("--moe-token-dispatcher-type other"),
              HasSubstr("there is no dispatcher 'other'"));
  EXPECT_EQ(values_in(megatron("--moe-router-force-load-balancing"), {"routing"}), "balanced");
}

TEST(MegatronFlags, Capacity) {
  const Launched launched =
      megatron("--moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity");
  ASSERT_EQ(launched.changes.size(), 2U);
  EXPECT_EQ(launched.changes[0].value,
            "{kind: capacity, rule: megatron, factor: 1.25, drop: position}");
  EXPECT_THAT(launched.assumed, Contains(HasSubstr("dropped by position as by probability")));
  EXPECT_EQ(launched.changes[1].path, "policy.dispatch");
}

TEST(MegatronFlags, Recomputation) {
  const auto recompute = [](const std::string& flags) {
    return values_in(megatron(flags), {"recompute"});
  };
  EXPECT_EQ(recompute(""), "none");
  EXPECT_EQ(recompute("--recompute-activations"), "[core_attn]");
  EXPECT_EQ(recompute("--recompute-granularity full --recompute-method uniform "
                      "--recompute-num-layers 1"),
            "full");
  EXPECT_EQ(recompute("--recompute-granularity selective --recompute-modules moe_act mlp"),
            "[moe_act, mlp]");
  EXPECT_THAT(megatron("--recompute-granularity full --recompute-method block "
                       "--recompute-num-layers 4")
                  .not_simulated,
              Contains("--recompute-num-layers 4"));
  EXPECT_THAT(error_in_megatron("--recompute-granularity selective --recompute-modules moe_at"),
              HasSubstr("did you mean 'moe_act'?"));
}

TEST(MegatronFlags, Offloading) {
  const auto offload = [](const std::string& flags) {
    return values_in(megatron(flags), {"offload"});
  };
  EXPECT_EQ(offload("--offload-modules expert_fc1"), "-") << "without the switch";
  EXPECT_EQ(offload("--fine-grained-activation-offloading --offload-modules expert_fc1 core_attn"),
            "[expert_fc1, core_attn]");
  EXPECT_THAT(megatron("--fine-grained-activation-offloading --offload-modules moe_act "
                       "--activation-offload-fraction 0.5")
                  .not_simulated,
              Contains("--activation-offload-fraction 0.5"));
  EXPECT_THAT(
      error_in_megatron("--fine-grained-activation-offloading --offload-modules expert_fc2"),
      HasSubstr("did you mean 'expert_fc1'?"));
}

TEST(MegatronFlags, Precision) {
  const auto precision = [](const std::string& flags) {
    return values_in(megatron(flags), {"precision"});
  };
  EXPECT_EQ(precision(""), "bf16");
  EXPECT_EQ(precision("--fp8-format hybrid"), "fp8");
  EXPECT_EQ(precision("--fp8-format e4m3 --fp8-recipe blockwise"), "fp8-blockwise");
  EXPECT_EQ(precision("--fp8-format e4m3 --fp8-recipe mxfp8 --first-last-layers-bf16 "
                      "--num-layers-at-end-in-bf16 2"),
            "{format: mxfp8, bf16_layers: {first: 1, last: 2}}");
  EXPECT_EQ(precision("--fp4-format e2m1"), "nvfp4");
}

TEST(MegatronFlags, StateAndOverlap) {
  EXPECT_EQ(values_in(megatron(""), {"zero", "overlap.gradients", "overlap.parameters"}),
            "0 false -");
  EXPECT_EQ(values_in(megatron("--use-distributed-optimizer --overlap-grad-reduce "
                               "--overlap-param-gather --grad-reduce-in-bf16"),
                      {"zero", "overlap.gradients", "overlap.parameters", "gradient_bytes"}),
            "1 true true 2");
  EXPECT_EQ(values_in(megatron("--use-megatron-fsdp --data-parallel-sharding-strategy "
                               "optim_grads_params"),
                      {"zero"}),
            "3");
  EXPECT_EQ(values_in(megatron("--use-precision-aware-optimizer --exp-avg-dtype bf16 "
                               "--exp-avg-sq-dtype fp8"),
                      {"optimizer_bytes"}),
            "7");
  EXPECT_EQ(values_in(megatron("--expert-model-parallel-size 8 --overlap-moe-expert-parallel-comm "
                               "--delay-wgrad-compute"),
                      {"pipeline", "overlap.delay_wgrad"}),
            "combined-1f1b true");
  EXPECT_EQ(values_in(megatron("--cuda-graph-impl transformer_engine --cuda-graph-scope attn "
                               "moe_router"),
                      {"host.graphs"}),
            "[attn, moe_router]");
  EXPECT_THAT(megatron("--enable-cuda-graph").not_simulated, Contains("--enable-cuda-graph"));
}

TEST(MegatronFlags, OthersAreListedOrIgnored) {
  const Launched launched = megatron(
      "--foo 3 --tp-comm-overlap --lr 1e-4 --save /x --log-interval 1 --seed 4 --no-load-optim "
      "--cp-comm-type p2p --train-iters 10");
  EXPECT_THAT(launched.not_simulated, testing::ElementsAre("--foo 3", "--tp-comm-overlap"));
}

TEST(MegatronFlags, TheLastOfTwoWins) {
  EXPECT_EQ(values_in(megatron("--micro-batch-size 1 --micro-batch-size 4"), {"batch.micro"}), "4");
}

TEST(MegatronLaunchers, SayTheGpus) {
  const std::string flags =
      " pretrain_gpt.py --tensor-model-parallel-size 1 --seq-length 128 --global-batch-size 64\n";
  const auto gpus = [&](const std::string& script) { return launch_of_text(script, "a.sh").gpus; };
  EXPECT_EQ(gpus("torchrun --nproc-per-node=4" + flags), 4);
  EXPECT_EQ(gpus("torchrun --nproc_per_node 8 --nnodes $N" + flags), 0);
  EXPECT_EQ(gpus("#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nsrun python" + flags), 32);
  EXPECT_EQ(gpus("srun -N 2 --ntasks-per-node 4 python" + flags), 8);
  EXPECT_EQ(gpus("mpirun -np 16 python" + flags), 16);
  EXPECT_EQ(gpus("python" + flags), 0);
  const std::string eight = "#SBATCH --nodes 8\n#SBATCH --gpus-per-node 8\n";
  EXPECT_EQ(
      gpus(eight + "srun --ntasks-per-node=1 torchrun --nproc-per-node=gpu --nnodes=8" + flags), 64)
      << "a task is not a GPU";
  EXPECT_EQ(gpus("srun -N8 --ntasks-per-node=8 python" + flags), 64);
  EXPECT_EQ(gpus("srun -N8 -n64 python" + flags), 64);
  EXPECT_EQ(gpus("deepspeed --num_gpus 8 --num_nodes 8" + flags), 64);
  EXPECT_EQ(gpus("deepspeed --num_gpus 8" + flags), 8);
  EXPECT_EQ(gpus("accelerate launch --num_processes 64 --num_machines 8" + flags), 64);
}

TEST(MegatronErrors, HaveTheirLine) {
  EXPECT_THAT(error_in_megatron("\\\n --tensor-model-parallel-size 3"),
              HasSubstr("a.sh:2: error: tp x pp x cp = 3 x 1 x 1 do not divide 16 GPUs"));
  EXPECT_THAT(error_in_megatron("--expert-model-parallel-size 16 --tensor-model-parallel-size 2"),
              HasSubstr("etp x ep x pp = 2 x 16 x 1 do not divide 16 GPUs"));
  EXPECT_THAT(error_in_megatron("--expert-model-parallel-size 16 --num-experts 24"),
              HasSubstr("24 experts are not divided by ep = 16"));
  EXPECT_THAT(error_in_megatron("--micro-batch-size 3"),
              HasSubstr("the global batch 64 is not a multiple of micro batch 3 x 16 replicas"));
  EXPECT_THAT(error_in_megatron("--micro-batch-size $MBS"),
              HasSubstr("as nothing in the file sets MBS\n"));
  EXPECT_THAT(error_in_megatron("--micro-batch-size $(nproc)"),
              HasSubstr("as what a command prints says it\n"));
  EXPECT_THAT(error_in_megatron("--micro-batch-size two"),
              HasSubstr("'two' is not a whole number from 1 on"));
  EXPECT_THAT(error_in_megatron("--micro-batch-size"), HasSubstr("has no value"));
  EXPECT_THAT(error_of([] {
                launch_of_text("if [ $A = 1 ]; then M=1\nelse M=2\nfi\n" +
                                   megatron_launch("--micro-batch-size $M"),
                               "a.sh");
              }),
              HasSubstr("a.sh:4: error: '--micro-batch-size $M': its value is not known, as line 2 "
                        "sets it under a condition"));
}

TEST(MegatronErrors, OneLaunchOnly) {
  EXPECT_THAT(
      error_of([] {
        launch_of_text(megatron_launch("") + "\n" + megatron_launch("--micro-batch-size 2"),
                       "a.sh");
      }),
      HasSubstr("a.sh:2: error: a second launch: Megatron-LM in line 1 and Megatron-LM in line 2"));
  EXPECT_EQ(launch_of_text(megatron_launch("") + "\n" + megatron_launch("--seed 2"), "a.sh").gpus,
            16);
  EXPECT_THAT(error_of([] { launch_of_text("echo hello\n", "a.sh"); }),
              HasSubstr("nothing in it launches a known software"));
}

TEST(MegatronScripts, KeepConditionsInSight) {
  const Launched launched = launch_of_text(
      "A=(--seed 1)\nif [ -n \"$KEY\" ]; then A+=(--wandb-project x --fp8-format hybrid); fi\n" +
          megatron_launch("${A[@]} $EXTRA"),
      "a.sh");
  EXPECT_THAT(launched.assumed,
              Contains("--fp8-format hybrid: line 2 has it under a condition that is not known"));
  EXPECT_THAT(launched.assumed, Contains("$EXTRA in line 3 is empty: nothing sets it"));
  EXPECT_THAT(launched.assumed, testing::Not(Contains(HasSubstr("wandb"))));
}

}  // namespace
}  // namespace moesim
