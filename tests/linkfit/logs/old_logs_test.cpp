// SPDX-License-Identifier: Apache-2.0
// Tables of nccl-tests of all versions, and what they leave unsaid: collective, ranks, hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/linkfit/logs/made_log.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string old_ranks(const char* form) {
  std::string text =
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor)\n#\n# Using devices\n";
  for (int r = 0; r < 4; ++r) text += fmt::format(fmt::runtime(form), r, r);
  return text + "#\n";
}

/// A log line of NCCL that says the host of a rank.
std::string line_of_rank(int rank, int host) {
  return fmt::format("node{}:4000:4100 [0] NCCL INFO comm 0x1 rank {} nranks 16 cudaDev 0\n", host,
                     rank);
}

TEST(OldLog, OfNoBytesIsNotTakenInPlaceOfAnother) {
  MadeLog gather, nothing;
  gather.program = "all_gather_perf";
  nothing.first = 0;
  EXPECT_EQ(read_made(nothing.text() + gather.text()).what,
            "all_gather, 16 ranks, between 2 hosts");
}

TEST(OldLog, HasADomainInPlaceOfHosts) {
  MadeLog made;
  made.preamble = false;
  LogChoice choice;
  choice.collective = Collective::alltoall;
  choice.ranks = 16;
  choice.domain = 8;
  EXPECT_EQ(read_made(made.text(), choice).what, "alltoall, 16 ranks, between 2 hosts");
}

TEST(OldLog, MayNameOnlyTheTests) {
  const std::string versions = " nccl-headers=22807 nccl-library=22807";
  std::string text = MadeLog{}.text();
  text.erase(text.find(versions), versions.size());
  EXPECT_EQ(read_made(text).library, "nccl-tests 2.17.6");
}

TEST(OldLog, BeginsAgainWithItsHeader) {
  MadeLog few;
  few.ranks = 8;
  EXPECT_EQ(read_made(few.header() + MadeLog{}.text()).what, "alltoall, 16 ranks, between 2 hosts");
}

TEST(OldLog, HasTheHostsOfTheRanksThatAreThere) {
  MadeLog made;
  made.preamble = false;
  std::string lines;
  for (int rank = 0; rank < 16; ++rank) lines += line_of_rank(rank, rank / 8);
  LogChoice choice;
  choice.collective = Collective::alltoall;
  for (const int none : {16, -1}) {
    EXPECT_EQ(read_made(lines + line_of_rank(none, 7) + made.text(), choice).what,
              "alltoall, 16 ranks, between 2 hosts");
  }
}

// The deviation of sums is not a number of wrong elements.
TEST(OldTable, HasDeviations) {
  const std::string text =
      old_ranks("#   Rank {:2d} Pid   3000 on   v100-{} device  0 [0x1a] Tesla V100-PCIE-32GB\n") +
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw "
      "  busbw  error\n"
      "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s) "
      " (GB/s)\n"
      "     1048576       262144   float     sum   216.77    4.84    7.26  2e-07   216.77    4.84  "
      "  7.26  2e-07\n"
      "     2097152       524288   float     sum   353.54    5.93    8.90  4e-03   353.54    5.93  "
      "  8.90  2e-07\n"
      "# Out of bounds values : 0 OK\n";
  const Log log = read_made(text);
  EXPECT_EQ(log.what, "all_reduce, 4 ranks, between 4 hosts");
  EXPECT_EQ(log.gpu, "Tesla V100-PCIE-32GB");
  EXPECT_TRUE(log.checked);
  EXPECT_DOUBLE_EQ(log.samples.at(0).time.value, 216.77e-6);
  EXPECT_THAT(refusal_of(with(text, "4e-03", "4e-03*")), HasSubstr("4e-03* wrong elements"));
  EXPECT_THAT(refusal_of(with(text, "0 OK", "3 FAILED")), HasSubstr("found wrong results"));
}

TEST(OldTable, HasABlankRedop) {
  const std::string text =
      old_ranks("#   Rank {:2d} Pid   3000 on   v100-{} device  0 [0x1a] Tesla V100\n") +
      "#       size         count      type   redop     time   algbw   busbw  error     time   "
      "algbw   busbw  error\n"
      "     1048576         65536     float            200.00    5.24    3.93  0e+00   200.00    "
      "5.24    3.93  1e+00\n"
      "     2097152        131072     float            400.00    5.24    3.93  0e+00   400.00    "
      "5.24    3.93  1e+00\n"
      "# Out of bounds values : 0 OK\n";
  EXPECT_EQ(read_made(text).what, "alltoall, 4 ranks, between 4 hosts");
}

// Versions of 2018: milliseconds, columns "bytes" and "N", no process ids.
TEST(OldTable, HasMilliseconds) {
  const std::string text = old_ranks("#   Rank {:2d} on   v100-{} device  0 [0x1a] Tesla V100\n") +
                           "#      bytes             N    type      time  algbw  busbw      res    "
                           " time  algbw  busbw      res\n"
                           "     1048576        262144   float     0.400   2.62   1.97    0e+00    "
                           "0.400   2.62   1.97    0e+00\n"
                           "     2097152        524288   float     0.800   2.62   1.97    0e+00    "
                           "0.800   2.62   1.97    0e+00\n"
                           " Out of bounds values : 0 OK\n";
  const Log log = read_made(text);
  EXPECT_EQ(log.what, "all_gather, 4 ranks, between 4 hosts");
  EXPECT_DOUBLE_EQ(log.samples.at(0).time.value, 400e-6);
}

TEST(NewTable, HasMoreColumns) {
  const Log log = read_made(MadeLog{}.header() +
                            "#   size count type redop root time algbw busbw #wrong i_min i_max "
                            "i_p99 i_cv% time algbw busbw "
                            "#wrong i_min i_max i_p99 i_cv% timestamp\n"
                            " 1048576 16384 float none -1 100.0 10.49 9.83 0 99 101 101 1 100.0 "
                            "10.49 9.83 N/A 1 2 3 4 2026-01-02 03:04:05\n"
                            " 2097152 32768 float none -1 200.0 10.49 9.83 0 99 101 101 1 200.0 "
                            "10.49 9.83 N/A 1 2 3 4 2026-01-02 03:04:06\n"
                            "# Out of bounds values : 0 OK\n");
  EXPECT_EQ(log.samples.size(), 2u);
  EXPECT_EQ(log.date, "2026-01-02");
}

// Times above 1e7 us are printed with two digits; the bandwidth gives more.
TEST(NewTable, HasTimesWithExponents) {
  const Log log =
      read_made(MadeLog{}.header() + MadeLog::columns() +
                " 8589934592 134217728 float none -1 5302430 1.62 1.52 0 5302430 1.62 1.52 N/A\n"
                " 17179869184 268435456 float none -1 1.1e+07 1.62 1.52 0 1.1e+07 1.62 1.52 N/A\n");
  EXPECT_NEAR(log.samples.at(1).time.value, 10.6, 0.05);
}

TEST(NewTable, HasNoEndlessTimes) {
  EXPECT_THAT(
      refusal_of(MadeLog{}.header() + MadeLog::columns() +
                 " 1048576 16384 float none -1 1e+07 1.000e-307 0 0 1e+07 1.000e-307 0 N/A\n"
                 " 2097152 32768 float none -1 1e+07 1.000e-307 0 0 1e+07 1.000e-307 0 N/A\n"),
      HasSubstr("a time is not above 0"));
}

// Columns and bandwidths tell the collective of a table, unless two look the same.
TEST(UnnamedTable, IsKnownByItsFigures) {
  MadeLog made;
  made.program = "";
  const auto what = [&] { return read_made(made.text()).what; };
  EXPECT_EQ(what(), "alltoall, 16 ranks, between 2 hosts");
  EXPECT_THAT(read_made(made.text()).notes,
              ElementsAre("names no collective: alltoall by its columns and bandwidths"));
  made.in_place_wrong = "0";
  EXPECT_EQ(what(), "all_gather, 16 ranks, between 2 hosts");
  made.redop = "sum";
  EXPECT_EQ(what(), "reduce_scatter, 16 ranks, between 2 hosts");
  made.parts = 1;
  made.factor = 15.0 / 8;
  EXPECT_EQ(what(), "all_reduce, 16 ranks, between 2 hosts");
  made.factor = 1;
  EXPECT_EQ(what(), "sendrecv, 16 ranks, between 2 hosts");
  made.ranks = 2;
  EXPECT_THAT(refusal_of(made.text()), HasSubstr("does not say which collective"))
      << "all_reduce and sendrecv of two ranks look the same";
  LogChoice choice;
  choice.collective = Collective::all_reduce;
  EXPECT_EQ(read_made(made.text(), choice).what, "all_reduce, 2 ranks, inside a host");
}

TEST(TableWithoutRanks, AsksForThem) {
  MadeLog made;
  made.preamble = false;
  EXPECT_THAT(refusal_of(made.text()), HasSubstr("--ranks N and --hosts N"));
  LogChoice choice;
  choice.ranks = 16;
  for (const auto reach : {std::optional<LinkReach>(), std::optional(LinkReach::fabric)}) {
    choice.reach = reach;
    EXPECT_THAT(refusal_of(made.text(), choice),
                HasSubstr("does not say on how many hosts its 16 ranks ran\nhint: --hosts says"));
  }
  choice.hosts = 4;
  const Log log = read_made(made.text(), choice);
  EXPECT_EQ(log.what, "alltoall, 16 ranks, between 4 hosts");
  EXPECT_EQ(log.samples.at(0).bytes, Bytes((1 << 20) / 16 * 12));
}

// NCCL's own log lines say ranks and hosts, too.
TEST(TableWithoutRanks, HasThoseThatNcclNames) {
  MadeLog made;
  made.preamble = false;
  std::string init;
  for (int r = 0; r < 16; ++r) {
    init += fmt::format(
        "[1,{}]<stdout>:n{}:{}:{} [{}] NCCL INFO comm 0x7f00 rank {} nranks 16 cudaDev {} busId 10 "
        "- Init COMPLETE\n",
        r, r / 4, 100 + r, 200 + r, r % 4, r, r % 4);
  }
  EXPECT_EQ(read_made(init + made.text()).what, "alltoall, 16 ranks, between 4 hosts");
}

TEST(Ranks, MayBeShortened) {
  MadeLog made;
  made.ranks = 0;
  const auto text = [&](std::initializer_list<int> listed) {
    std::string ranks;
    for (const int r : listed) ranks += made.rank(r) + "...\n";
    return made.header() + ranks + MadeLog::columns() + made.row(0) + made.row(1);
  };
  EXPECT_EQ(read_made(text({0, 7, 8, 15})).what, "alltoall, 16 ranks, between 2 hosts");
  EXPECT_THAT(refusal_of(text({0, 15})), HasSubstr("on how many hosts its 16 ranks ran"));
}

TEST(Ranks, OfAProcessAreCutByNcclTests) {
  MadeLog made;
  made.ranks = 0;
  const std::string header = with(made.header(), "nThread 1 nGpus 1", "nThread 1 nGpus 8");
  EXPECT_EQ(read_made(header + made.rank(0) + "...\n" + made.rank(8) + "...\n" +
                      MadeLog::columns() + made.row(0) + made.row(1))
                .what,
            "alltoall, 16 ranks, between 2 hosts");
}

TEST(Domain, IsARackOfTrays) {
  MadeLog made;
  made.gpu = "NVIDIA GB300";
  made.ranks = 8;
  made.per_host = 4;
  made.factor = 7.0 / 8;
  const Bytes whole((1 << 20) / 8 * 7), half(1 << 19);
  const Log rack = read_made(made.text());
  EXPECT_EQ(rack.what, "alltoall, 8 ranks, inside an NVLink domain of 2 hosts");
  EXPECT_EQ(rack.samples.at(0).bytes, whole);
  EXPECT_THAT(rack.notes, ElementsAre(HasSubstr("--domain says otherwise")));
  LogChoice choice;
  choice.reach = LinkReach::host;
  EXPECT_EQ(read_made(made.text(), choice).samples.at(0).bytes, whole);
  choice = {};
  choice.domain = 4;
  const Log trays = read_made(made.text(), choice);
  EXPECT_EQ(trays.what, "alltoall, 8 ranks, between 2 hosts");
  EXPECT_EQ(trays.samples.at(0).bytes, half);
  EXPECT_THAT(trays.notes, ElementsAre());
  // Hosts with other GPUs form a domain only if --domain or NCCL says so.
  made.gpu = "NVIDIA Graphics Device";
  EXPECT_EQ(read_made(made.text()).samples.at(0).bytes, half);
  choice.domain = 36;
  EXPECT_EQ(read_made(made.text(), choice).samples.at(0).bytes, whole);
  const std::string spans =
      "node0:4000:4100 [0] NCCL INFO comm 0x7f00 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 "
      "MNNVL 1\n";
  EXPECT_EQ(
      read_made(made.header() + spans + with(made.text(), made.header(), "")).samples.at(0).bytes,
      whole);
}

TEST(Domain, MustFitTheRanks) {
  LogChoice choice;
  choice.domain = 6;
  EXPECT_THAT(refusal_of(MadeLog{}.text(), choice),
              HasSubstr("its 16 ranks do not fill NVLink domains of 6 GPUs"));
  choice.domain = 4;
  EXPECT_EQ(read_made(MadeLog{}.text(), choice).what,
            "alltoall, 16 ranks, between 4 NVLink domains of 2 hosts");
}

}  // namespace
}  // namespace moesim
