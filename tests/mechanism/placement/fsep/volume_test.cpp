// SPDX-License-Identifier: Apache-2.0
#include "tests/mechanism/placement/fsep/volume.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace moesim::fsep {
namespace {

struct Shape {
  std::int64_t hidden, width;
  int slots;
  std::int64_t parameters, restored, per_rank, chunk;
  int sends;
};

// The configurations LAER-MoE was run with: 32 ranks in nodes of 8, bf16.
TEST(VolumeTest, OfThePublishedConfigurations) {
  const std::vector<Shape> shapes = {
      {4096, 14336, 2, 176'160'768, 704'643'072, 682'622'976, 11'010'048, 64},
      {4096, 7168, 4, 88'080'384, 704'643'072, 682'622'976, 5'505'024, 128},
      {6144, 16384, 2, 301'989'888, 1'207'959'552, 1'170'210'816, 18'874'368, 64},
      {6144, 8192, 4, 150'994'944, 1'207'959'552, 1'170'210'816, 9'437'184, 128}};
  for (const Shape& shape : shapes) {
    const ExpertSize expert{3 * shape.hidden * shape.width};
    EXPECT_EQ(expert.parameters, shape.parameters);
    const FsepVolume volume = fsep_volume(expert, {32, 8, shape.slots});
    EXPECT_EQ(volume.restored.value, shape.restored);
    EXPECT_EQ(volume.per_rank.value, shape.per_rank);
    EXPECT_EQ(volume.chunk.value, shape.chunk);
    EXPECT_EQ(volume.sends, shape.sends);
  }
}

TEST(VolumeTest, FsepAgainstFsdpEp) {
  const ExpertSize expert{3 * 4096 * 14336};
  const SlotGrid grid{32, 8, 2};
  const FsepVolume fsep = fsep_volume(expert, grid);
  const FsdpEpVolume fsdp = fsdp_ep_volume(expert, 8, grid);
  EXPECT_EQ(fsep.rank_inter_node.value, 528'482'304);
  EXPECT_EQ(fsep.node_inter_node.value, 4'227'858'432);
  EXPECT_EQ(fsdp.copies, 8);
  EXPECT_EQ(fsdp.rings, 4);
  EXPECT_EQ(fsdp.per_rank.value, 616'562'688);
  EXPECT_EQ(fsdp.node_inter_node.value, 2'466'250'752);
  EXPECT_NEAR(fsep.per_rank / fsdp.per_rank, 1.107, 5e-4);
  EXPECT_NEAR(fsep.node_inter_node / fsdp.node_inter_node, 1.714, 5e-4);
}

// LAER-MoE's condition for hiding it: 42.3 ms at 100 GB/s per node fit under 32768 token-slots of
// 1.4 us.
TEST(VolumeTest, RestoreBesideTheExpertsForward) {
  const FsepVolume fsep = fsep_volume(ExpertSize{3 * 4096 * 14336}, {32, 8, 2});
  const Seconds restore = fsep.node_inter_node / BytesPerSecond(100e9);
  EXPECT_NEAR(restore.value, 42.3e-3, 5e-5);
  EXPECT_LT(restore, Seconds(32768 * 1.4e-6));
}

TEST(VolumeTest, OneNodeSendsNothingOut) {
  const ExpertSize expert{64};
  EXPECT_EQ(fsep_volume(expert, {8, 8, 2}).node_inter_node, Bytes(0));
  EXPECT_EQ(fsdp_ep_volume(expert, 8, {8, 8, 2}).node_inter_node, Bytes(0));
}

TEST(VolumeTest, MemoryPerRank) {
  // 8 experts of 64 parameters over 4 ranks: 128 parameters of 16 bytes; 5 x 2 experts restored.
  const ExpertSize expert{64};
  const SlotGrid grid{4, 2, 2};
  EXPECT_EQ(fsep_persistent(expert, 8, grid), Bytes(2048));
  EXPECT_EQ(fsep_persistent(expert, 8, grid, Bytes(2)), Bytes(256));
  EXPECT_EQ(fsep_transient(expert, grid), Bytes(5 * 2 * 128));
}

TEST(VolumeTest, RefusesUnequalShards) {
  EXPECT_THROW(fsep_volume(ExpertSize{30}, {4, 2, 2}), Error);
  EXPECT_THROW(fsdp_ep_volume(ExpertSize{63}, 4, {4, 2, 2}), Error);
  EXPECT_THROW(fsdp_ep_volume(ExpertSize{64}, 3, {4, 2, 2}), Error);
  EXPECT_THROW(fsdp_ep_volume(ExpertSize{60}, 6, {6, 2, 2}), Error);  // groups of 3, nodes of 2
}

}  // namespace
}  // namespace moesim::fsep
