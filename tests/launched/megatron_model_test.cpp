// SPDX-License-Identifier: Apache-2.0
// Sizes of the model in Megatron's flags, next to those of the model that they mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/launched/launched_model.h"
#include "tests/error_of.h"
#include "tests/launched/launched_keys.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// Mixtral 8x7B; later flags win.
Launched mixtral(const std::string& flags) {
  return launch_of_text(
      "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 --num-experts 8 --moe-router-topk 2 --swiglu --vocab-size 32000 "
      "--seq-length 4096 --global-batch-size 256 --bf16 --moe-token-dispatcher-type alltoall " +
          flags,
      "a.sh");
}

/// What the model is changed to.
std::vector<std::string> changes_by(const std::string& flags) {
  Launched launched = mixtral(flags);
  EXPECT_EQ(model_of_launch(launched), "mixtral-8x7b-e8k2");
  std::vector<std::string> changes;
  for (const LaunchedKey& change : launched.changes) {
    changes.push_back(change.path + "=" + change.value);
  }
  EXPECT_EQ(changes.empty(), launched.assumed.size() == 1U) << "each is noted";
  return changes;
}

TEST(MegatronSizes, ThatTellModelsApartMustFit) {
  for (const auto& [flags, size] :
       {std::pair("--ffn-hidden-size 4096", "expert_ffn 14336 (the launch: 4096)"),
        {"--moe-ffn-hidden-size 1024", "expert_ffn 14336 (the launch: 1024)"},
        {"--num-attention-heads 64", "attention.heads 32 (the launch: 64)"}}) {
    Launched launched = mixtral(flags);
    EXPECT_THAT(
        error_of([&] { model_of_launch(launched); }),
        HasSubstr(std::string("--model mixtral-8x7b-e8k2 is the nearest, but differs: ") + size));
  }
}

TEST(MegatronSizes, OfTheSameModelChangeNothing) {
  EXPECT_THAT(changes_by(""), IsEmpty());
  EXPECT_THAT(changes_by("--kv-channels 128 --moe-layer-freq 1 --mtp-num-layers 0"), IsEmpty());
  EXPECT_THAT(changes_by("--vocab-size 32128 --tensor-model-parallel-size 2 --sequence-parallel"),
              UnorderedElementsAre("model.vocabulary=32128"));
  EXPECT_THAT(changes_by("--padded-vocab-size 32000"), IsEmpty());
}

TEST(MegatronSizes, ChangeTheModel) {
  EXPECT_THAT(changes_by("--num-query-groups 32"),
              UnorderedElementsAre("model.attention.kv_heads=32"));
  EXPECT_THAT(changes_by("--kv-channels 64"), UnorderedElementsAre("model.attention.head_dim=64"));
  EXPECT_THAT(changes_by("--mtp-num-layers 1"), UnorderedElementsAre("model.mtp=1"));
  EXPECT_THAT(changes_by("--vocab-size 256000"), UnorderedElementsAre("model.vocabulary=256000"));
  EXPECT_THAT(changes_by("--moe-shared-expert-intermediate-size 14336"),
              UnorderedElementsAre("model.shared_experts=1", "model.shared_ffn=14336"));
}

TEST(MegatronSizes, SayWhichLayersHaveExperts) {
  EXPECT_THAT(
      changes_by("--moe-layer-freq '([0]*16+[1]*16)'"),
      UnorderedElementsAre("model.moe_layers={first: 16, count: 16}", "model.dense_ffn=14336"));
  EXPECT_THAT(changes_by("--moe-layer-freq 2"),
              UnorderedElementsAre("model.moe_layers={first: 0, count: 16, stride: 2}",
                                   "model.dense_ffn=14336"));
  EXPECT_THAT(changes_by("--moe-layer-freq '[0]*1+[1]*3+[0]*27+[1]'"),
              UnorderedElementsAre("model.moe_layers=[1, 2, 3, 31]", "model.dense_ffn=14336"));
  EXPECT_THAT(error_of([] { mixtral("--moe-layer-freq '[0]*4+[1]*4'"); }),
              HasSubstr("has 8 layers, --num-layers 32"));
  EXPECT_THAT(error_of([] { mixtral("--moe-layer-freq every"); }),
              HasSubstr("'every' does not say which layers have experts"));
}

TEST(MegatronSizes, ThatNoFlagSaysAreTheModels) {
  Launched launched = launch_of_text(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 61 --hidden-size 7168 "
      "--moe-ffn-hidden-size 2048 --num-attention-heads 128 --num-experts 256 --moe-router-topk 8 "
      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 256 --seq-length 4096 "
      "--global-batch-size 64 --moe-token-dispatcher-type alltoall",
      "a.sh");
  EXPECT_EQ(model_of_launch(launched), "deepseek-v3");
  EXPECT_THAT(launched.assumed,
              testing::ElementsAre("model: by its sizes",
                                   "model: changed to what the launch has: attention.kv_rank 512 "
                                   "(the launch: 256)"));
}

TEST(MegatronSizes, OfADumpSayWhatIsOff) {
  Launched launched = launch_of_text(
      "------------------------ arguments ------------------------\n"
      "  num_layers ...................................... 48\n"
      "  hidden_size ..................................... 2048\n"
      "  num_experts ..................................... 128\n"
      "  moe_router_topk ................................. 8\n"
      "  moe_ffn_hidden_size ............................. 768\n"
      "  num_attention_heads ............................. 32\n"
      "  group_query_attention ........................... False\n"
      "  num_query_groups ................................ 1\n"
      "  moe_layer_freq .................................. 1\n"
      "  seq_length ...................................... 4096\n"
      "  global_batch_size ............................... 64\n"
      "  world_size ...................................... 8\n"
      "  moe_token_dispatcher_type ....................... alltoall\n"
      "-------------------- end of arguments ---------------------\n",
      "a.log");
  EXPECT_EQ(model_of_launch(launched), "qwen3-30b-a3b");
  EXPECT_THAT(launched.assumed, Contains(HasSubstr("kv_heads 4 (the launch: 32)")));
}

}  // namespace
}  // namespace moesim
