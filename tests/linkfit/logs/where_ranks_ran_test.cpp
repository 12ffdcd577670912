// SPDX-License-Identifier: Apache-2.0
// How many ranks ran on how many hosts, by the log, by its bandwidths and by whoever reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/linkfit/logs/made_log.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MadeLog of(int ranks, int per_host) {
  MadeLog made;
  made.ranks = ranks;
  made.per_host = per_host;
  made.factor = (ranks - 1.0) / ranks;
  return made;
}

/// Without the lines of ranks from `first` on.
std::string cut_from(const MadeLog& made, int first) {
  std::string text = made.text();
  for (int r = first; r < made.ranks; ++r) text = with(text, made.rank(r), "");
  return text;
}

LogChoice on_hosts(int hosts) {
  LogChoice choice;
  choice.hosts = hosts;
  return choice;
}

TEST(Ranks, AreThoseOfTheBandwidths) {
  const MadeLog made = of(64, 8);
  EXPECT_EQ(read_made(made.text()).setting.ranks, 64);
  EXPECT_THAT(refusal_of(cut_from(made, 32)),
              HasSubstr("are not of 32 ranks, but of some 64: the list of ranks is cut\nhint: give "
                        "all lines '#  Rank ...', or --ranks 64 and --hosts N"));
  LogChoice choice = on_hosts(4);
  choice.ranks = 32;
  EXPECT_THAT(refusal_of(cut_from(made, 0), choice), HasSubstr("are not of 32 ranks"));
  choice = on_hosts(8);
  choice.ranks = 64;
  EXPECT_EQ(read_made(cut_from(made, 0), choice).what, "alltoall, 64 ranks, between 8 hosts");
}

TEST(Ranks, ThatAreSaidCountMoreThanAListThatIsCut) {
  const std::string cut = cut_from(of(16, 8), 12);
  LogChoice choice = on_hosts(2);
  choice.ranks = 16;
  const Log log = read_made(cut, choice);
  EXPECT_EQ(log.what, "alltoall, 16 ranks, between 2 hosts");
  EXPECT_EQ(log.setting.fewest, 0) << "the list does not say";
  EXPECT_THAT(log.notes, ElementsAre("takes 16 ranks as --ranks says; its lines name 12"));
  choice.hosts.reset();
  EXPECT_THAT(refusal_of(cut, choice), HasSubstr("on how many hosts its 16 ranks ran"));
  choice.ranks = 8;
  EXPECT_THAT(refusal_of(cut, choice), HasSubstr("is of 12 ranks, not of 8"));
  choice.ranks = 32;
  EXPECT_THAT(refusal_of(of(16, 8).text(), choice), HasSubstr("is of 16 ranks, not of 32"));
  MadeLog pairs = of(16, 8);  // whose bandwidths are those of any number of ranks
  pairs.program = "sendrecv_perf";
  pairs.factor = 1;
  pairs.parts = 1;
  choice = on_hosts(2);
  choice.ranks = 16;
  EXPECT_EQ(read_made(cut_from(pairs, 12), choice).setting.ranks, 16);
  EXPECT_THAT(refusal_of(cut_from(pairs, 8) + cut_from(pairs, 12), choice),
              HasSubstr("holds nothing of what is chosen"))
      << "--ranks chooses a test";
}

TEST(Ranks, MayBeCutAfterTheFirst) {
  MadeLog sum = of(72, 4);
  sum.program = "all_reduce_perf";
  sum.factor *= 2;
  sum.parts = 1;
  for (const MadeLog& made : {sum, of(72, 4)}) {
    const std::string cut = cut_from(made, 1);
    EXPECT_THAT(refusal_of(cut), HasSubstr("are not of 1 rank, but of some 7"));
    LogChoice choice = on_hosts(18);
    choice.ranks = 72;
    EXPECT_THAT(read_made(cut, choice).what, HasSubstr(", 72 ranks, between 18 hosts"));
  }
  MadeLog one = of(1, 1);
  EXPECT_THAT(refusal_of(one.text()), HasSubstr("ran with one rank: nothing crossed a link"));
}

TEST(Ranks, OfASumHaveTwiceTheFactor) {
  MadeLog made = of(64, 8);
  made.program = "all_reduce_perf";
  made.factor *= 2;
  made.parts = 1;
  EXPECT_EQ(read_made(made.text()).setting.ranks, 64);
  EXPECT_THAT(refusal_of(cut_from(made, 32)), HasSubstr("not of 32 ranks, but of some 6"));
}

TEST(Hosts, MayHaveUnequalNumbersOfRanks) {
  const Log log = read_made(of(20, 8).text());
  EXPECT_EQ(log.what, "alltoall, 20 ranks, between 3 hosts");
  EXPECT_EQ(log.setting.fewest, 4);
  EXPECT_EQ(log.samples.at(0).bytes, Bytes((1 << 20) / 5 * 4)) << "of the GPUs of the host of four";
  EXPECT_EQ(read_made(of(16, 8).text()).setting.fewest, 8);
}

TEST(Hosts, OfWhoeverReadsCountWithANote) {
  const std::string pods = of(16, 1).text();  // each has a name of its own
  const Log log = read_made(pods, on_hosts(2));
  EXPECT_EQ(log.what, "alltoall, 16 ranks, between 2 hosts");
  EXPECT_THAT(log.notes, ElementsAre("takes 2 hosts as --hosts says; its ranks name 16"));
  EXPECT_THAT(read_made(pods).notes, ElementsAre());
}

TEST(Hosts, ThatRanksDoNotFillAreSaid) {
  LogChoice choice = on_hosts(9);
  choice.ranks = 64;
  const Log log = read_made(cut_from(of(64, 8), 0), choice);
  EXPECT_THAT(log.notes, ElementsAre("64 ranks do not fill 9 hosts: takes one to have 7"));
  EXPECT_EQ(log.samples.at(0).bytes, Bytes((1 << 20) / 64 * 57));
}

TEST(Groups, MustBeAlike) {
  const MadeLog made = of(32, 8);
  const auto split_at = [&](int ranks, int all, const MadeLog& each) {
    std::string text = made.header();
    for (int r = 0; r < 32; ++r) {
      const std::string group = fmt::format("Group {:2d}", r < all ? r / ranks : 1);
      text = with(text, made.rank(r), with(made.rank(r), "Group  0", group));
    }
    return text + with(each.text(), each.header(), "");
  };
  EXPECT_THAT(refusal_of(split_at(8, 8, of(8, 8))),
              HasSubstr("ran in groups that are not alike: 8 ranks on 1 host, 24 ranks on 3 hosts\n"
                        "hint: split the ranks into equal groups"));
  EXPECT_EQ(read_made(split_at(8, 32, of(8, 8))).what, "alltoall, 8 ranks, inside a host");
}

TEST(Hosts, MustHaveTheSlots) {
  LogChoice choice = on_hosts(2);
  choice.slots = 16;
  EXPECT_EQ(read_made(MadeLog{}.text(), choice).what, "alltoall, 16 ranks, between 2 hosts");
  choice.slots = 15;
  EXPECT_THAT(refusal_of(MadeLog{}.text(), choice),
              HasSubstr("16 ranks need more than the 15 slots of --hosts"));
}

MadeLog rack() {
  MadeLog made = of(8, 4);
  made.gpu = "NVIDIA GB300";
  return made;
}

TEST(Racks, AreJoinedWhateverElseNcclSaysOfThem) {
  const std::string found =
      "node0:4000:4100 [0] NCCL INFO MNNVL busId 0x10000 fabric UUID d3.5d cliqueId 0x7ffe state "
      "3\n";
  const std::string header = rack().header();
  const Log log = read_made(header + found + with(rack().text(), header, ""));
  EXPECT_EQ(log.what, "alltoall, 8 ranks, inside an NVLink domain of 2 hosts");
}

TEST(Racks, AreNotJoinedWhereTheFabricIsAskedFor) {
  LogChoice choice;
  choice.reach = LinkReach::fabric;
  const Log log = read_made(rack().text(), choice);
  EXPECT_EQ(log.what, "alltoall, 8 ranks, between 2 hosts");
  EXPECT_THAT(log.notes, ElementsAre());
}

TEST(Reach, ChoosesAmongTests) {
  const std::string both = of(8, 8).text() + of(16, 8).text();
  EXPECT_EQ(read_made(both).what, "alltoall, 16 ranks, between 2 hosts");
  LogChoice choice;
  choice.reach = LinkReach::host;
  EXPECT_EQ(read_made(both, choice).what, "alltoall, 8 ranks, inside a host");
}

}  // namespace
}  // namespace moesim
