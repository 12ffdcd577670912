// SPDX-License-Identifier: Apache-2.0
// The names of collectives, and the bytes on links that their sizes stand for.
#include "sim/linkfit/measurement.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(LinkBytes, FollowTheCollective) {
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::alltoall, 8, 1}, LinkReach::host), 7.0 / 8);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::alltoall, 16, 2}, LinkReach::fabric), 0.5);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::all_reduce, 4, 1}, LinkReach::host), 1.5);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::sendrecv, 2, 2}, LinkReach::fabric), 1);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::all_gather, 4, 4}, LinkReach::fabric), 0.75);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::all_gather, 8, 4}, LinkReach::fabric),
                   7.0 / 16);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::all_reduce, 16, 2}, LinkReach::fabric),
                   15.0 / 64);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::broadcast, 8, 1}, LinkReach::host), 1);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::scatter, 8, 2}, LinkReach::fabric), 0.5);
  EXPECT_DOUBLE_EQ(link_bytes_per_byte({Collective::alltoall, 8, 1}, LinkReach::fabric), 0);
}

TEST(Rounds, AreTheHopsOfARing) {
  for (const Collective pairs : {Collective::alltoall, Collective::gather, Collective::scatter}) {
    EXPECT_EQ(rounds_of({pairs, 8, 1}), 1);
  }
  EXPECT_EQ(rounds_of({Collective::sendrecv, 2, 2}), 1);
  for (const Collective ring : {Collective::all_gather, Collective::reduce_scatter,
                                Collective::broadcast, Collective::reduce}) {
    EXPECT_EQ(rounds_of({ring, 8, 1}), 7);
  }
  EXPECT_EQ(rounds_of({Collective::all_reduce, 8, 1}), 14);
}

TEST(Collectives, GoByManyNames) {
  for (const char* name : {"alltoall", "AlltoAll", "all_to_all", "alltoall_perf",
                           "alltoall_perf_mpi", "/opt/perf/alltoall_perf_cuda13"}) {
    EXPECT_EQ(collective_of(name), Collective::alltoall) << name;
  }
  EXPECT_EQ(collective_of("reduce_scatter_perf"), Collective::reduce_scatter);
  EXPECT_EQ(collective_of("send_recv"), Collective::sendrecv);
  EXPECT_EQ(collective_of("alltoallv_perf"), std::nullopt) << "it has no one size";
}

}  // namespace
}  // namespace moesim
