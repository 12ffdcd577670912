// SPDX-License-Identifier: Apache-2.0
// The least and the most that every word of a plan's text may be, and where the mistake is beyond.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/plan/text.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

/// What is said first of these ops of a plan for 4 GPUs: the place of the mistake and its message.
std::string first_of(const std::string& text) {
  const std::string error = error_of([&] { parse_plan(text, "p"); });
  return error.substr(0, error.find('\n'));
}
std::string first_in(const std::string& ops) {
  return first_of("moesim-plan 2\nname n\ngpus 4\n" + ops);
}
std::string in_kernel(const std::string& gpus, const std::string& work) {
  return first_in("op 0 gate compute layer - forward other gpus " + gpus + " " + work + "\n");
}
std::string in_exchange(const std::string& words, const std::string& below = "") {
  return first_in("op 0 probe ep layer - forward other exchange 0-3 " + words + "\n" + below);
}
const std::string memory = "memory read 1 written 1";

TEST(PlanWords, OfTheHeaderAreThreeLines) {
  EXPECT_EQ(first_of(""), "p: error: the plan ends before its ops");
  EXPECT_EQ(first_of("# nothing\n\n"), "p: error: the plan ends before its ops");
  EXPECT_EQ(first_of("moesim-plan"), "p:1:12: error: expected a version here");
  EXPECT_EQ(first_of("moesim-plan 2 3"), "p:1:15: error: '3' does not belong here");
  EXPECT_EQ(first_of("moesim-plan 2\nnam n"), "p:2:1: error: expected 'name', not 'nam'");
  EXPECT_EQ(first_of("moesim-plan 2\nname"), "p:2:5: error: expected the name of the plan here");
  EXPECT_EQ(first_of("moesim-plan 2\nname a b"), "p:2:8: error: 'b' does not belong here");
  EXPECT_EQ(first_of("moesim-plan 2\nname a\nGPUs 4"), "p:3:1: error: expected 'gpus', not 'GPUs'");
  EXPECT_EQ(first_of("moesim-plan 2\nname a\ngpus 1048576"), "");
  EXPECT_EQ(first_of("moesim-plan 2\nname a\ngpus 1048577"),
            "p:3:6: error: the number of GPUs must be 1 to 1048576, not 1048577");
}

TEST(PlanWords, NumbersAreWholeAndInRange) {
  const auto layer = [](const std::string& word) {
    return first_in("op 0 gate compute layer " + word + " forward other gpus 0 " + memory + "\n");
  };
  EXPECT_EQ(layer("0"), "");
  EXPECT_EQ(layer("2147483647"), "");
  const std::string range = "p:4:25: error: a layer must be 0 to 2147483647, not ";
  for (const char* word : {"2147483648", "-1", "99999999999999999999"}) {
    EXPECT_EQ(layer(word), range + word);
  }
  for (const char* word : {"+1", "1.0", "0x1", "1-", "--"}) {
    EXPECT_EQ(layer(word),
              fmt::format("p:4:25: error: expected a layer here, a whole number, not '{}'", word));
  }
}

TEST(PlanWords, CountsBehindTheStageAreZeroOrMore) {
  for (const std::string word : {"microbatch", "chunk", "part"}) {
    const auto with = [&](const std::string& number) {
      return first_in("op 0 gate compute layer - forward other " + word + " " + number +
                      " gpus 0 " + memory + "\n");
    };
    EXPECT_EQ(with("0"), "");
    EXPECT_EQ(with("-1"), fmt::format("p:4:{}: error: {} must be 0 to 2147483647, not -1",
                                      42 + word.size(), word));
  }
}

TEST(PlanWords, EscapesOfNamesAreTwoHexDigits) {
  const auto name = [](const std::string& escape) {
    const std::string text = "moesim-plan 2\nname \"" + escape + "\"\ngpus 1\n";
    try {
      return parse_plan(text, "p").name;
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(0, what.find('\n'));
    }
  };
  EXPECT_EQ(name("\\x09\\x1a\\x20\\x7f"), "\x09\x1a\x20\x7f");
  EXPECT_EQ(name("\\x90\\xa9\\xff\\xf0"), "\x90\xa9\xff\xf0");
  EXPECT_EQ(name("\\\\x\\\""), "\\x\"");
  for (const char* escape : {"\\x/0", "\\x0/", "\\x:0", "\\x0:", "\\x`0", "\\x0`", "\\xg0", "\\x0g",
                             "\\xA0", "\\X00", "\\n00", "\\x1", "\\x"}) {
    EXPECT_EQ(name(escape), "p:2:7: error: unknown escape in a name") << escape;
  }
  EXPECT_EQ(first_of("moesim-plan 2\nname \"a\\"), "p:2:8: error: unknown escape in a name");
  EXPECT_EQ(first_of("moesim-plan 2\nname \"a"),
            "p:2:6: error: the name of the plan has no closing quote");
  EXPECT_EQ(first_of("moesim-plan 2\nname \""),
            "p:2:6: error: the name of the plan has no closing quote");
}

TEST(PlanWords, ListsAreNumbersAndRanges) {
  const auto gpus = [](const std::string& list) {
    return in_kernel(list, "memory read 1 written 1");
  };
  for (const char* list : {"0", "0-0", "3", "0-3", "0,2-3", "0-1,3"}) EXPECT_EQ(gpus(list), "");
  const auto whole = [](int column, const std::string& part) {
    return fmt::format("p:4:{}: error: expected a GPU here, a whole number, not '{}'", column,
                       part);
  };
  EXPECT_EQ(gpus("0,"), whole(48, ""));
  EXPECT_EQ(gpus(",0"), whole(46, ""));
  EXPECT_EQ(gpus("0,,1"), whole(48, ""));
  EXPECT_EQ(gpus("1-"), whole(48, ""));
  EXPECT_EQ(gpus("-1"), whole(46, ""));
  EXPECT_EQ(gpus("0-1-2"), whole(48, "1-2"));
  EXPECT_EQ(gpus("2-1"), "p:4:46: error: the range 2-1 runs backwards");
  EXPECT_EQ(gpus("0,3-2"), "p:4:48: error: the range 3-2 runs backwards");
  EXPECT_EQ(gpus("0-4"), "p:4:48: error: a GPU must be 0 to 3, not 4");
  EXPECT_EQ(gpus("-"), "p:4:1: error: op 0 'gate': an op needs a GPU or more");
}

TEST(PlanWords, SizesAreForAllGpusOrOneEach) {
  EXPECT_EQ(in_kernel("0-2", "memory read 2*5,6 written 1"), "");
  EXPECT_EQ(in_kernel("0-2", "memory read 5 written 1,2,3"), "");
  EXPECT_EQ(in_kernel("0-2", "memory read 5,6 written 1"), "p:4:62: error: 2 numbers for 3 GPUs");
  EXPECT_EQ(in_kernel("0-2", "memory read 5 written 4*1"), "p:4:72: error: 4 numbers for 3 GPUs");
  EXPECT_EQ(in_kernel("0-2", "host - ns"), "p:4:55: error: 0 numbers for 3 GPUs");
  EXPECT_EQ(in_kernel("0-1", "host 1,2,3 ns"), "p:4:55: error: 3 numbers for 2 GPUs");
  EXPECT_EQ(in_kernel("0", "host 1 s"), "p:4:55: error: expected 'ns', not 's'");
  EXPECT_EQ(in_kernel("0", "host 0*1 ns"), "p:4:53: error: a repeat must be 1 to 1048576, not 0");
  EXPECT_EQ(in_kernel("0", "host 1*1 ns"), "");
  EXPECT_EQ(in_kernel("0", "host *1 ns"),
            "p:4:53: error: expected a repeat here, a whole number, not ''");
  EXPECT_EQ(in_kernel("0", "host 1* ns"),
            "p:4:55: error: expected nanoseconds here, a whole number, not ''");
  EXPECT_EQ(in_kernel("0", "host -1 ns"),
            "p:4:53: error: nanoseconds must be 0 to 9223372036854775807, not -1");
  EXPECT_EQ(in_kernel("0-1", "gemm bf16 m 1;2;3 n 1 k 1"),
            "p:4:1: error: op 0 'gate': 3 kernels for 2 GPUs");
}

TEST(PlanWords, SizesOfProductsAndAttentionAreOneOrMore) {
  const auto gemm = [](const std::string& n, const std::string& k) {
    return in_kernel("0", "gemm fp8 m - n " + n + " k " + k);
  };
  EXPECT_EQ(gemm("1", "1"), "");
  EXPECT_EQ(gemm("0", "1"), "p:4:63: error: n must be 1 to 9223372036854775807, not 0");
  EXPECT_EQ(gemm("1", "0"), "p:4:67: error: k must be 1 to 9223372036854775807, not 0");
  EXPECT_EQ(in_kernel("0", "gemm int8 m 1 n 1 k 1"), "p:4:53: error: 'int8' is not a data type");
  const auto attention = [](const std::string& heads) {
    return in_kernel(
        "0", "attention bf16 forward queries 0 attended 0 heads " + heads + " kv-heads 1 qk 1 v 1");
  };
  EXPECT_EQ(attention("1"), "");
  EXPECT_EQ(attention("32767"), "");
  EXPECT_EQ(attention("0"), "p:4:98: error: heads must be 1 to 32767, not 0");
  EXPECT_EQ(attention("32768"), "p:4:98: error: heads must be 1 to 32767, not 32768");
  EXPECT_EQ(in_kernel("0", "attention bf16 sideways"), "p:4:63: error: 'sideways' is not a pass");
}

TEST(PlanWords, OfExchanges) {
  EXPECT_EQ(in_exchange("unit 1 padded transposed rounds 0 sms 1"), "");
  EXPECT_EQ(in_exchange("unit 0"),
            "p:4:55: error: bytes of a unit must be 1 to 9223372036854775807, not 0");
  EXPECT_EQ(in_exchange("unit 1 sms 0"), "p:4:61: error: sms must be 1 to 2147483647, not 0");
  EXPECT_EQ(in_exchange("unit 1 transposed padded"),
            "p:4:68: error: 'padded' does not belong here");
  EXPECT_EQ(in_exchange("unit 8", "  0 -> 3:4294967295\n  1 -> 0:1 3:1\n"), "");
  EXPECT_EQ(in_exchange("unit 8", "  0 -> 3:4294967296\n"),
            "p:5:10: error: units must be 1 to 4294967295, not 4294967296");
  EXPECT_EQ(in_exchange("unit 8", "  1 -> 0:1\n  1 -> 2:1\n"),
            "p:6:3: error: the matrix row of GPU 1 comes too late");
  EXPECT_EQ(in_exchange("unit 8", "  1 -> 0:1 3:1 2:1\n"), "p:5:3: error: destination 2 follows 3");
  EXPECT_EQ(in_exchange("unit 8", "  0 ->\n"), "p:5:7: error: expected GPU:units here");
  EXPECT_EQ(in_exchange("unit 8", "  0 -> 1:2:3\n"),
            "p:5:8: error: expected GPU:units, not '1:2:3'");
  EXPECT_EQ(in_exchange("unit 8", "  4 -> 1:2\n"), "p:5:3: error: a GPU must be 0 to 3, not 4");
}

TEST(PlanWords, OfRows) {
  const auto rows = [](const std::string& list) {
    return in_exchange("unit 8", "  rows 0 -> " + list + "\n");
  };
  EXPECT_EQ(rows("0:3:0 2147483647:0:31,0-2 5:1:-"), "");
  EXPECT_EQ(rows("2147483648:0:0"),
            "p:5:13: error: a token must be 0 to 2147483647, not 2147483648");
  EXPECT_EQ(rows("0:4:0"), "p:5:15: error: a GPU must be 0 to 3, not 4");
  EXPECT_EQ(rows("0:0:0-32"), "p:5:19: error: a choice must be 0 to 31, not 32");
  EXPECT_EQ(rows("0:0"), "p:5:13: error: expected token:GPU:choices, not '0:0'");
}

TEST(PlanWords, BelowABadLineAreSkippedUpToTheNextOp) {
  const std::string bad_row = "  0 -> 9:1\n", good = "  0 -> 1:1\n";
  EXPECT_EQ(error_of([&] {
              parse_plan(
                  "moesim-plan 2\nname n\ngpus 4\n"
                  "op 0 probe ep layer - forward other exchange 0-3 unit 8\n" +
                      bad_row + good + "  1 -> 2:0\n",
                  "p");
            }),
            "p:5:8: error: a GPU must be 0 to 3, not 9\n"
            "    0 -> 9:1\n"
            "         ^\n"
            "p:7:10: error: units must be 1 to 4294967295, not 0\n"
            "    1 -> 2:0\n"
            "           ^\n");
  EXPECT_EQ(first_in("op 0 gate compute layer - forward other gpus 0 " + memory + "\n\t0 -> 1:1\n"),
            "p:5:2: error: only an exchange has lines below it");
}

TEST(PlanWords, ListsMayStandForAsManyNumbersAsTheFileHasRoomFor) {
  const std::string head =
      "moesim-plan 2\nname n\ngpus 4\nop 0 gate compute layer - forward other gpus 0 ";
  const auto numbers = [&](std::int64_t beyond) {
    const std::string before = "memory read 1048576*1,", after = " written 1\n";
    // The op's GPU takes a number of the room, the repeat above 2^20.
    const std::size_t bytes =
        head.size() + before.size() + std::string("00000*1").size() + after.size();
    const std::int64_t rest = 64 * static_cast<std::int64_t>(bytes) - 1 + beyond;
    return first_of(head + before + fmt::format("{:05}*1", rest) + after);
  };
  EXPECT_NE(numbers(0).find("numbers for 1 GPUs"), std::string::npos) << numbers(0);
  EXPECT_NE(numbers(1).find("the lists up to here stand for too many numbers"), std::string::npos)
      << numbers(1);
}

TEST(PlanWords, ARangeTakesRoomForWhatIsInIt) {
  EXPECT_EQ(
      first_of(
          "moesim-plan 2\nname n\ngpus 1048576\n"
          "op 0 gate compute layer - forward other gpus 1048570-1048575 memory read 1 written 1\n"),
      "");
}

}  // namespace
}  // namespace moesim
