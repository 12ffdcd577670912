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

// Unless it is told to allow it, NCCL refuses two processes on a GPU: these are hosts of one name.
TEST(RankPlaces, ProcessesOfANameThatWasTakenOutDoNotShareAGpu) {
  RankPlaces places;
  for (int rank = 0; rank < 4; ++rank) places.add_listed(rank, 0, "xx", "0000:02:00", 0);
  EXPECT_EQ(places.ranks(), 4);
  EXPECT_FALSE(places.hosts());
}

TEST(RankPlaces, ProcessesOfAHostMayShareItsOneGpu) {
  RankPlaces one, two, several;
  for (int rank = 0; rank < 4; ++rank) {
    one.add_listed(rank, 0, "lab", "0000:02:00", 0);
    one.add_from_nccl(rank, 4, "lab", "0 2000");
    two.add_listed(rank, 0, rank < 2 ? "lab" : "lab2", "0000:02:00", 0);
    several.add_listed(rank, 0, "lab", rank % 2 == 0 ? "0000:02:00" : "0000:03:00", rank % 2);
  }
  EXPECT_EQ(one.hosts(), 1);
  EXPECT_EQ(two.hosts(), 2);
  EXPECT_FALSE(several.hosts()) << "of two GPUs each";
}

TEST(RankPlaces, AByteOfAnAddressDoesNotTellGpusApart) {
  RankPlaces one, two, split, taken_out;
  for (int rank = 0; rank < 8; ++rank) {
    one.add_listed(rank, 0, "n1", "0x01", 0);
    two.add_listed(rank, 0, rank < 4 ? "n1" : "n2", "0x01", 0);
    split.add_listed(rank, 0, "n1", "0x00", rank % 4);
    taken_out.add_listed(rank, 0, "xx", "0x01", 0);
  }
  EXPECT_EQ(one.hosts(), 1);
  EXPECT_EQ(two.hosts(), 2);
  EXPECT_EQ(split.hosts(), 1) << "each process sees four of eight";
  EXPECT_FALSE(taken_out.hosts());
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
