// SPDX-License-Identifier: Apache-2.0
// The exact words on bad text.
#include <gtest/gtest.h>

#include <string>

#include "sim/plan/text.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

std::string bad(const std::string& ops) {
  const std::string text = "moesim-plan 2\nname n\ngpus 4\n" + ops;
  return error_of([&] { parse_plan(text, "p"); });
}

TEST(BadPlanText, WithoutItsHeader) {
  const auto read = [](const std::string& text) {
    return error_of([&] { parse_plan(text, "p"); });
  };
  EXPECT_EQ(read("name n\n"),
            "p:1:1: error: not a plan\n"
            "  name n\n"
            "  ^\n"
            "hint: a plan starts with the line moesim-plan 2\n");
  EXPECT_EQ(read("moesim-plan 1\n"),
            "p:1:13: error: version '1' of the form of a plan\n"
            "  moesim-plan 1\n"
            "              ^\n"
            "hint: this program reads version 2: make the plan again with it\n");
  EXPECT_EQ(read("moesim-plan 2\nname n\n"),
            "p: error: the plan ends before its ops\n"
            "hint: a plan starts with the lines moesim-plan 2, name and gpus\n");
  EXPECT_EQ(read("moesim-plan 2\nname n\ngpus 0\n"),
            "p:3:6: error: the number of GPUs must be 1 to 1048576, not 0\n"
            "  gpus 0\n"
            "       ^\n");
}

TEST(BadPlanText, AboveItsLimits) {
  const auto read = [](const std::string& gpus, const std::string& list, const PlanLimits& limits) {
    const std::string op = "op 0 gate compute layer - forward other gpus " + list;
    const std::string text = "moesim-plan 2\nname n\ngpus " + gpus + "\n" + op +
                             " memory read 1 written 1\n";  // 100 bytes and the two words
    return error_of([&] { parse_plan(text, "p", limits); });
  };
  EXPECT_EQ(read("9", "0-8", {.gpus = 9}), "");
  EXPECT_EQ(read("9", "0-8", {.gpus = 8}),
            "p:3:6: error: the number of GPUs must be 1 to 8, not 9\n"
            "  gpus 9\n"
            "       ^\n");
  EXPECT_EQ(read("9000", "0-8999", {.listed = 9000}), "");
  const std::string refused = read("9000", "0-8999", {.listed = 1000});
  EXPECT_NE(refused.find("a file may hold 1000 of them and 64 for each of its bytes"),
            std::string::npos);
}

TEST(BadPlanText, WithAnUnknownStream) {
  EXPECT_EQ(bad("op 0 gate compte layer - forward other gpus 0 memory read 1 written 1\n"),
            "p:4:11: error: 'compte' is not a stream\n"
            "  op 0 gate compte layer - forward other gpus 0 memory read 1 written 1\n"
            "            ^\n"
            "hint: did you mean 'compute'?\n");
}

TEST(BadPlanText, WithAMissingWord) {
  EXPECT_EQ(bad("op 0 gate compute layer - forward other gpus 0 gemm bf16 m 1 k 2\n"),
            "p:4:62: error: expected 'n', not 'k'\n"
            "  op 0 gate compute layer - forward other gpus 0 gemm bf16 m 1 k 2\n"
            "                                                               ^\n");
  EXPECT_EQ(bad("op 0 gate compute\n"),
            "p:4:18: error: expected 'layer' here\n"
            "  op 0 gate compute\n"
            "                   ^\n");
}

TEST(BadPlanText, WithAWordTooMany) {
  EXPECT_EQ(bad("op 0 gate compute layer - forward other gpus 0 memory read 1 written 1 befor 0\n"),
            "p:4:72: error: 'befor' does not belong here\n"
            "  op 0 gate compute layer - forward other gpus 0 memory read 1 written 1 befor 0\n"
            "                                                                         ^\n");
}

TEST(BadPlanText, WithNumbersOutOfRange) {
  EXPECT_EQ(bad("op 0 gate compute layer - forward other gpus 4 memory read 1 written 1\n"),
            "p:4:46: error: a GPU must be 0 to 3, not 4\n"
            "  op 0 gate compute layer - forward other gpus 4 memory read 1 written 1\n"
            "                                               ^\n");
  EXPECT_EQ(bad("op 0 gate compute layer - forward other gpus 0 memory read 1 written 1 after 1\n"),
            "p:4:78: error: an op to wait for must be 0 to 0, not 1\n"
            "  op 0 gate compute layer - forward other gpus 0 memory read 1 written 1 after 1\n"
            "                                                                               ^\n");
  EXPECT_EQ(bad("op 0 gate compute layer - forward other gpus 0 memory read 1e6 written 1\n"),
            "p:4:60: error: expected bytes read here, a whole number, not '1e6'\n"
            "  op 0 gate compute layer - forward other gpus 0 memory read 1e6 written 1\n"
            "                                                             ^\n");
}

TEST(BadPlanText, WithMisnumberedOps) {
  EXPECT_EQ(bad("op 1 gate compute layer - forward other gpus 0 memory read 1 written 1\n"
                "op 2 sort compute layer - forward other gpus 0 memory read 1 written 1\n"),
            "p:4:4: error: expected op 0, not '1'\n"
            "  op 1 gate compute layer - forward other gpus 0 memory read 1 written 1\n"
            "     ^\n"
            "hint: ops are numbered from 0 in the order of their lines\n");
}

TEST(BadPlanText, WithAnOpThatThereIsNot) {
  EXPECT_EQ(bad("op 0 fc1-wgard compute layer 0 backward experts gpus 0 host 1 ns\n"),
            "p:4:6: error: no op is called 'fc1-wgard'\n"
            "  op 0 fc1-wgard compute layer 0 backward experts gpus 0 host 1 ns\n"
            "       ^\n"
            "hint: did you mean 'fc1-wgrad'?\n");
}

TEST(BadPlanText, WithABadLabel) {
  EXPECT_EQ(bad("op 0 gate label \"a compute\n"),
            "p:4:17: error: the label of the op has no closing quote\n"
            "  op 0 gate label \"a compute\n"
            "                  ^\n");
  EXPECT_EQ(bad("op 0 gate label \"a\\n\" compute\n"),
            "p:4:19: error: unknown escape in a name\n"
            "  op 0 gate label \"a\\n\" compute\n"
            "                    ^\n"
            "hint: known: \\\", \\\\ and \\x with two hex digits\n");
}

const std::string all_to_all = "op 0 probe ep layer - forward other exchange 0-3 unit 8\n";

TEST(BadPlanText, WithABadMatrix) {
  EXPECT_EQ(bad(all_to_all + "  0 -> 1:2 3\n"),
            "p:5:12: error: expected GPU:units, not '3'\n"
            "    0 -> 1:2 3\n"
            "             ^\n");
  EXPECT_EQ(bad(all_to_all + "  1 -> 2:1\n  0 -> 1:2\n"),
            "p:6:3: error: the matrix row of GPU 0 comes too late\n"
            "    0 -> 1:2\n"
            "    ^\n"
            "hint: rows ascend by source, each GPU once\n");
  EXPECT_EQ(bad(all_to_all + "  1 -> 2:1 2:1\n"),
            "p:5:3: error: destination 2 follows 2\n"
            "    1 -> 2:1 2:1\n"
            "    ^\n"
            "hint: destinations ascend, each GPU once\n");
  EXPECT_EQ(bad(all_to_all + "  1 -> 2:0\n"),
            "p:5:10: error: units must be 1 to 4294967295, not 0\n"
            "    1 -> 2:0\n"
            "           ^\n");
  EXPECT_EQ(bad("op 0 probe ep layer - forward other exchange 0,2 unit 8\n  0 -> 1:1 2:1\n"),
            "p:5:8: error: GPU 1 takes no part in the exchange\n"
            "    0 -> 1:1 2:1\n"
            "         ^\n"
            "hint: list it behind 'exchange'\n");
  EXPECT_EQ(bad("op 0 probe ep layer - forward other exchange 0,2 unit 8\n  1 -> 2:1\n"),
            "p:5:3: error: GPU 1 takes no part in the exchange\n"
            "    1 -> 2:1\n"
            "    ^\n"
            "hint: list it behind 'exchange'\n");
  EXPECT_EQ(bad("op 0 probe ep layer - forward other exchange 2,0 unit 8\n  0 -> 1:1 2:1\n"),
            "p:4:1: error: op 0 'probe': its GPUs do not ascend\n"
            "  op 0 probe ep layer - forward other exchange 2,0 unit 8\n"
            "  ^\n");
  EXPECT_EQ(bad("op 0 probe ep layer - forward other exchange 0,2 unit 8 rounds x\n"),
            "p:4:64: error: expected rounds here, a whole number, not 'x'\n"
            "  op 0 probe ep layer - forward other exchange 0,2 unit 8 rounds x\n"
            "                                                                 ^\n");
}

TEST(BadPlanText, WithBadRowsAndRanges) {
  EXPECT_EQ(bad("op 0 probe ep layer - forward other exchange 0,2 unit 8 rounds 99999999999\n"),
            "p:4:64: error: rounds must be 0 to 2147483647, not 99999999999\n"
            "  op 0 probe ep layer - forward other exchange 0,2 unit 8 rounds 99999999999\n"
            "                                                                 ^\n");
  EXPECT_EQ(bad(all_to_all + "  rows 0 -> 7:1:0,32\n"),
            "p:5:19: error: a choice must be 0 to 31, not 32\n"
            "    rows 0 -> 7:1:0,32\n"
            "                    ^\n");
  EXPECT_EQ(bad("op 0 probe ep layer - forward other exchange 3-0 unit 8\n"),
            "p:4:46: error: the range 3-0 runs backwards\n"
            "  op 0 probe ep layer - forward other exchange 3-0 unit 8\n"
            "                                               ^\n");
}

TEST(BadPlanText, WithLinesBelowAKernel) {
  EXPECT_EQ(
      bad("op 0 gate compute layer - forward other gpus 0 memory read 1 written 1\n  0 -> 1:2\n"),
      "p:5:3: error: only an exchange has lines below it\n"
      "    0 -> 1:2\n"
      "    ^\n");
}

TEST(BadPlanText, ReportsEveryBadLineOnce) {
  EXPECT_EQ(bad("op 0 probe comput layer - forward other exchange 0-3 unit 8\n"
                "  skipped with its op\n"
                "opp 1\n"
                "op 1 gate compute layer x forward other gpus 0 memory read 1 written 1\n"),
            "p:4:12: error: 'comput' is not a stream\n"
            "  op 0 probe comput layer - forward other exchange 0-3 unit 8\n"
            "             ^\n"
            "hint: did you mean 'compute'?\n"
            "p:6:1: error: expected 'op', not 'opp'\n"
            "  opp 1\n"
            "  ^\n"
            "p:7:25: error: expected a layer here, a whole number, not 'x'\n"
            "  op 1 gate compute layer x forward other gpus 0 memory read 1 written 1\n"
            "                          ^\n");
}

TEST(BadPlanText, PlacesStructuralMistakesAtTheirOps) {
  EXPECT_EQ(
      bad("op 0 gate ep layer - forward other gpus 0 memory read 1 written 1\n\n"
          "op 1 sort compute layer - forward other gpus 1 memory read 1 written 1 after 0\n"),
      "p:4:1: error: op 0 'gate': a kernel runs on stream compute or copy, not ep\n"
      "  op 0 gate ep layer - forward other gpus 0 memory read 1 written 1\n"
      "  ^\n"
      "p:6:1: error: op 1 'sort' on GPU 1 waits for the foreign op 0 'gate' on GPU 0: they share "
      "no GPU\n"
      "  op 1 sort compute layer - forward other gpus 1 memory read 1 written 1 after 0\n"
      "  ^\n");
}

}  // namespace
}  // namespace moesim
