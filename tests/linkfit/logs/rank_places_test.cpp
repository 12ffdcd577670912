// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/rank_places.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/linkfit/logs/nccl_lines.h"

namespace moesim {
namespace {

TEST(RankPlaces, HostsThatShareANameAreNotCounted) {
  RankPlaces places;
  for (int rank = 0; rank < 16; ++rank) {
    places.add_listed(rank, 0, "localhost", "0000:0" + std::to_string(rank % 8) + ":00");
  }
  EXPECT_EQ(places.ranks(), 16);
  EXPECT_FALSE(places.hosts());
}

TEST(RankPlaces, ManyRanksMayRunOnOneGpu) {
  RankPlaces places;
  places.set_local(4);
  for (int rank = 0; rank < 4; ++rank) places.add_listed(rank, 0, "a", "0000:02:00", 0);
  EXPECT_EQ(places.hosts(), 1) << "of one process";
}

// NCCL refuses two processes on a GPU: these are hosts of one name.
TEST(RankPlaces, ProcessesDoNotShareAGpu) {
  RankPlaces places;
  for (int rank = 0; rank < 4; ++rank) places.add_listed(rank, 0, "xx", "0000:02:00", 0);
  EXPECT_EQ(places.ranks(), 4);
  EXPECT_FALSE(places.hosts());
}

TEST(RankPlaces, HostsOfOneNameAreToldByNccl) {
  RankPlaces one, two;
  for (int rank = 0; rank < 16; ++rank) {
    if (rank < 8) one.add_from_nccl(rank, 8, "localhost", std::to_string(rank));
    if (rank < 8) two.add_from_nccl(rank, 8, "localhost", "0 of a part of the ranks");
    two.add_from_nccl(rank, 16, "localhost", std::to_string(rank % 8));
  }
  EXPECT_EQ(one.hosts(), 1);
  EXPECT_FALSE(two.hosts());
}

TEST(RankPlaces, AddressesThatWereTakenOutTellNothing) {
  RankPlaces one, several, named;
  for (int rank = 0; rank < 16; ++rank) {
    if (rank < 8) one.add_listed(rank, 0, "xx", "0xb", rank);
    several.add_listed(rank, 0, "xx", "0xb", rank % 8);
    named.add_listed(rank, 0, rank < 8 ? "n1" : "n2", "0xb", rank % 8);
  }
  EXPECT_EQ(one.hosts(), 1);
  EXPECT_FALSE(several.hosts());
  EXPECT_EQ(named.hosts(), 2);
}

TEST(RankPlaces, OtherHostsAndGroupsHaveGpusAtTheSameAddress) {
  RankPlaces hosts, groups, unsaid;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string address = "0000:0" + std::to_string(rank % 2) + ":00";
    hosts.add_listed(rank, 0, rank < 2 ? "a" : "b", address);
    groups.add_listed(rank, rank / 2, "a", address);
    unsaid.add_listed(rank, 0, "a", "");
  }
  EXPECT_EQ(hosts.hosts(), 2);
  EXPECT_EQ(groups.hosts(), 1);
  EXPECT_EQ(unsaid.hosts(), 1);
}

TEST(RankPlaces, AddressesAreThoseOfTheLine) {
  EXPECT_EQ(rank_line("#  Rank 17 Group  2 Pid   4000 on   n1 device  3 [0000:10:00] NVIDIA H100")
                ->address,
            "0000:10:00");
  EXPECT_EQ(rank_line("#   Rank  0 Pid  47 on n1 device  0 [0x8a] Tesla V100")->address, "0x8a");
  EXPECT_EQ(rank_line("#Rank 0 on n1 device 3")->address, "");
  EXPECT_EQ(rank_line("#Rank 0 on n1 device 3")->device, 3);
}

}  // namespace
}  // namespace moesim
