// SPDX-License-Identifier: Apache-2.0
// Every call of CUDA, cuBLAS and NCCL fails in turn, a GPU is lost at it, or a rank dies: all ranks
// end in time, with the cause, or with the right numbers. Calls that do nothing are found.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "tests/realhw/emulated/calls.h"
#include "tests/realhw/emulated/emulated.h"
#include "tests/realhw/stack/stack_case.h"

namespace moesim {
namespace {

using emulated::Calls;
using emulated::Mishap;

constexpr int struck_rank = 1;

/// All calls if $MOESIM_MISHAPS is set; else the first, a middle and the last one of each name.
std::vector<std::int64_t> calls_to_strike(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::int64_t>> by_name;
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    by_name[names[i]].push_back(static_cast<std::int64_t>(i));
    chosen.push_back(static_cast<std::int64_t>(i));
  }
  if (std::getenv("MOESIM_MISHAPS") != nullptr) return chosen;
  chosen.clear();
  for (const auto& [name, places] : by_name) {
    for (const std::size_t i : {std::size_t{0}, places.size() / 2, places.size() - 1}) {
      if (chosen.empty() || chosen.back() != places[i]) chosen.push_back(places[i]);
    }
  }
  return chosen;
}

/// What is wrong with how the run ended; empty: nothing.
std::string wrong_end(const StackCase::Result& result, Seconds limit) {
  const RunEnd& end = result.end;
  const bool died = std::ranges::count(end.died, true) > 0;
  const bool threw =
      std::ranges::any_of(end.thrown, [](const auto& what) { return !what.empty(); });
  std::string wrong = end.text_of_state();
  if (end.first_end_s > 0 && end.last_end_s - end.first_end_s > limit.value + 0.1) {
    wrong +=
        fmt::format("the last rank ended {} s after the first\n", end.last_end_s - end.first_end_s);
  }
  if (!died && !threw && (result.compared.wrong() != 0 || result.compared.outputs == 0)) {
    wrong += fmt::format("{} elements are wrong, and nobody says so\n", result.compared.wrong());
  }
  const std::string cause = end.thrown[struck_rank];
  const bool told = died || !threw || cause.find("CUDA") != std::string::npos ||
                    cause.find("cuBLAS") != std::string::npos ||
                    cause.find("NCCL") != std::string::npos;
  if (!told) wrong += "the cause is not told: " + cause + "\n";
  return wrong;
}

class StackMishap : public testing::TestWithParam<Mishap> {};

TEST_P(StackMishap, EndsAllRanksWithTheCauseOrTheRightNumbers) {
  StackCase c("alltoall");
  emulated::watch_every(31);
  c.run(1);
  const std::vector<std::string> names = Calls::get().of_rank(struck_rank);
  int struck = 0;
  for (const std::int64_t call : calls_to_strike(names)) {
    Calls::get().plan(GetParam(), struck_rank, call);
    const StackCase::Result result = c.run(1 + static_cast<std::uint64_t>(call) % 6);
    struck += Calls::get().struck().empty() ? 0 : 1;
    EXPECT_EQ(wrong_end(result, c.options.timeout), "")
        << "call " << call << ", " << names[static_cast<std::size_t>(call)] << ", "
        << testing::PrintToString(result.end.thrown);
  }
  Calls::get().forget();
  emulated::watch_every(1);
  EXPECT_GT(struck, 50);
  RecordProperty("struck", struck);
}

INSTANTIATE_TEST_SUITE_P(All, StackMishap,
                         testing::Values(Mishap::fails, Mishap::lost, Mishap::dies),
                         [](const auto& option) { return std::string(name_of(option.param)); });

/// Messages that NCCL has taken and perhaps not put on a stream: no others may follow them.
TEST(StackCapture, IsTheLastOfARankWhoseMessagesMayNotHaveStarted) {
  StackCase c("alltoall");
  emulated::watch_every(31);
  c.run(1);
  const std::vector<std::string> names = Calls::get().of_rank(struck_rank);
  const auto begin = std::ranges::find(names, "cudaStreamBeginCapture");
  const auto end = std::find(begin, names.end(), "cudaStreamEndCapture");
  int struck = 0;
  for (auto at = std::find(begin, end, "ncclGroupEnd"); at != end;
       at = std::find(at + 1, end, "ncclGroupEnd")) {
    Calls::get().plan(Mishap::fails, struck_rank, at - names.begin() + 1);
    const StackCase::Result result = c.run(1);
    ASSERT_EQ(Calls::get().struck(), "ncclCommGetAsyncError");
    EXPECT_EQ(wrong_end(result, c.options.timeout), "");
    EXPECT_THAT(result.end.thrown[struck_rank],
                testing::HasSubstr("before the step: NCCL, called in state: "));
    ++struck;
  }
  Calls::get().forget();
  emulated::watch_every(1);
  EXPECT_GT(struck, 1);
}

/// What NCCL says of an exchange that failed on its way.
TEST(StackBackground, FailureEndsAllRanks) {
  StackCase c("laer");
  emulated::watch_every(31);
  c.run(1);
  const auto& names = Calls::get().of_rank(struck_rank);
  const auto polls = std::ranges::count(names, "ncclCommGetAsyncError");
  ASSERT_GT(polls, 10);
  for (const std::int64_t number : {polls / 8, polls / 3, polls / 2, polls - 1}) {
    for (const std::uint64_t seed : {1, 2, 4}) {
      Calls::get().plan(Mishap::in_background, struck_rank, number, "ncclCommGetAsyncError");
      const StackCase::Result result = c.run(seed);
      EXPECT_EQ(wrong_end(result, c.options.timeout), "");
      if (Calls::get().struck().empty()) continue;
      EXPECT_THAT(result.end.thrown[struck_rank],
                  testing::AnyOf("", testing::HasSubstr("there was a network error")));
    }
  }
  Calls::get().forget();
  emulated::watch_every(1);
}

/// A call that does nothing, and the number that it has among those of its name by one rank.
struct Planted {
  std::string name;
  std::int64_t number = 0;
};

std::vector<Planted> read_planted() {
  std::ifstream file(MOESIM_ROOT "/tests/realhw/stack/planted.txt");
  std::vector<Planted> all;
  for (Planted one; file >> one.name >> one.number;) all.push_back(one);
  return all;
}

class StackPlanted : public testing::TestWithParam<Planted> {};

TEST_P(StackPlanted, IsFoundInSomeOrder) {
  StackCase c("alltoall");
  emulated::watch_every(31);
  std::string found;
  std::uint64_t seed = 1;
  for (; seed <= 40 && found.empty(); ++seed) {
    Calls::get().plan(Mishap::skipped, struck_rank, GetParam().number, GetParam().name);
    const StackCase::Result result = c.run(seed);
    EXPECT_EQ(Calls::get().struck(), GetParam().name);
    found = result.end.text();
    if (result.compared.wrong() > 0) found += fmt::format("{} wrong", result.compared.wrong());
  }
  Calls::get().forget();
  emulated::watch_every(1);
  EXPECT_NE(found, "");
  RecordProperty("order", std::to_string(seed - 1));
}

INSTANTIATE_TEST_SUITE_P(All, StackPlanted, testing::ValuesIn(read_planted()),
                         [](const auto& option) {
                           return fmt::format("{}_{}", option.param.name, option.param.number);
                         });

}  // namespace
}  // namespace moesim
