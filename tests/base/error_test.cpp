// SPDX-License-Identifier: Apache-2.0
#include "sim/base/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace moesim {
namespace {

/// The optimal string alignment of two texts by its recursion.
std::size_t distance(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return std::max(a.size(), b.size());
  const auto shorter = [](std::string_view text, std::size_t by) {
    return text.substr(0, text.size() - by);
  };
  std::size_t least = std::min({distance(shorter(a, 1), b) + 1, distance(a, shorter(b, 1)) + 1,
                                distance(shorter(a, 1), shorter(b, 1)) + (a.back() != b.back())});
  const bool swapped =
      a.size() > 1 && b.size() > 1 && a.back() == b[b.size() - 2] && b.back() == a[a.size() - 2];
  return swapped ? std::min(least, distance(shorter(a, 2), shorter(b, 2)) + 1) : least;
}

std::string any_word(std::mt19937& random) {
  std::string word(1 + random() % 6, 'a');
  for (char& c : word) c = "abcA"[random() % 4];
  return word;
}

std::string with_small_as(std::string word) {
  std::ranges::replace(word, 'A', 'a');
  return word;
}

TEST(Diagnostic, ShowsPlaceSourceLineCaretAndHint) {
  const Diagnostic d{Severity::error,       "a.yaml", 3, 5, "unknown key 'gpuz'", "    gpuz: 8",
                     "did you mean 'gpus'?"};
  EXPECT_EQ(d.str(),
            "a.yaml:3:5: error: unknown key 'gpuz'\n"
            "      gpuz: 8\n"
            "      ^\n"
            "hint: did you mean 'gpus'?\n");
}

TEST(Diagnostic, LeavesOutWhatIsNotKnown) {
  EXPECT_STREQ(Error("no such flag").what(), "error: no such flag\n");
}

TEST(Diagnostic, MayKnowTheFileOrTheLineAlone) {
  EXPECT_STREQ(error_in("a.yaml", "why").what(), "a.yaml: error: why\n");
  EXPECT_STREQ(error_in("a.yaml", "why", "do", 7).what(), "a.yaml:7: error: why\nhint: do\n");
  EXPECT_EQ((Diagnostic{Severity::warning, "a", 1, 0, "why", "x: 1", ""}).str(),
            "a:1: warning: why\n  x: 1\n");
}

/// What is shown of a line with a mistake in a column.
std::string shown_of(const std::string& line, int column) {
  return Diagnostic{Severity::error, "", 0, column, "", line, ""}.str().substr(8);
}

TEST(Diagnostic, OfALongLineShowsWhatIsAroundTheCaret) {
  const auto marked = [](const std::string& line, std::size_t before) {
    return "  " + line + "\n  " + std::string(before, ' ') + "^\n";
  };
  const std::string widest(160, 'x');
  EXPECT_EQ(shown_of(widest, 160), marked(widest, 159));
  EXPECT_EQ(shown_of(widest + "y", 81), marked(widest + "...", 80));
  EXPECT_EQ(shown_of(widest + "y", 82), marked("..." + widest.substr(1) + "y", 83));
  // Characters of two bytes are shown whole.
  std::string wide = "a";
  for (int i = 0; i < 100; ++i) wide += "\xc3\xa9";
  EXPECT_EQ(shown_of(wide, 1), marked(wide.substr(0, 161) + "...", 0));
  EXPECT_EQ(shown_of(wide, 103), marked("..." + wide.substr(21, 160) + "...", 84));
}

TEST(DidYouMean, SuggestsTheNearestOrListsAll) {
  EXPECT_EQ(did_you_mean("bandwith", {"bandwidth", "latency"}), "did you mean 'bandwidth'?");
  EXPECT_EQ(did_you_mean("xyz", {"bandwidth", "latency"}), "known: bandwidth, latency");
  EXPECT_EQ(did_you_mean("xyz", {}), "");
  EXPECT_EQ(did_you_mean("h100", {"h100-efa", "h200", "h100-rail"}),
            "did you mean 'h100-efa' or 'h100-rail'? They are different things: see moesim list");
  EXPECT_EQ(did_you_mean("hybrid_ep", {"hybrid-ep", "hybridep", "hybridep-exact"}),
            "did you mean 'hybrid-ep' or 'hybridep'? They are different things: see moesim list");
}

TEST(DidYouMean, PrefersNamesThatHaveTheWholeWord) {
  EXPECT_EQ(did_you_mean("fp4", {"bf16", "fp8", "nvfp4", "mxfp4"}),
            "did you mean 'nvfp4' or 'mxfp4'? Known: bf16, fp8, nvfp4, mxfp4");
  EXPECT_EQ(did_you_mean("FP4", {"fp8", "nvfp4"}), "did you mean 'nvfp4'? Known: fp8, nvfp4");
  EXPECT_EQ(did_you_mean("flo", {"flow", "overflow"}), "did you mean 'flow'?")
      << "the nearest has it";
  EXPECT_EQ(did_you_mean("fp", {"up", "nvfp4"}), "did you mean 'up'?") << "too short a word";
  EXPECT_EQ(did_you_mean("rail", {"mail", "rail1", "1-rail", "b_rail", "c_rail", "d_rail"}),
            "did you mean 'mail'?")
      << "too many have it";
}

TEST(DidYouMean, KnowsPluralsAndVariants) {
  EXPECT_EQ(nearest("policies", {"model", "policy"}), "policy");
  EXPECT_EQ(nearest("megatorn", {"megatron-allgather", "megatron"}), "megatron");
  EXPECT_EQ(nearest("h200-sxm", {"a100-sxm-80gb", "h100-sxm", "h200"}), "h200");
  EXPECT_EQ(nearest("nccl", {"uccl", "nccl-p2p", "nccl-ring"}), "nccl-p2p");
  EXPECT_EQ(nearest("h100", {"gb200", "h100-rail-optimized", "h100-sxm"}), "h100-sxm");
  EXPECT_EQ(nearest("hiermoe-hd4", {"hiermoe", "hiermoe-hd3"}), "hiermoe-hd3");
  EXPECT_EQ(nearest("nodes", {"nodes-max", "nodes"}), "nodes");
  EXPECT_EQ(nearest("1f1b-interleaved", {"1f1b", "interleaved", "gpipe"}), "interleaved");
  EXPECT_EQ(nearest("1f1b-zb", {"1f1b", "zb"}), "1f1b") << "the longer part";
  EXPECT_EQ(nearest("zzz", {"model", "policy"}), "");
}

TEST(DidYouMean, PrefersTheFirstOfEquallyNear) {
  EXPECT_EQ(nearest("nodex", {"nodes", "node"}), "nodes");
}

TEST(DidYouMean, CapitalsCountLast) {
  EXPECT_EQ(nearest("H200", {"b200", "h200"}), "h200");
  EXPECT_EQ(nearest("QWEN3-30B", {"qwen3-30b-a3b", "olmoe"}), "qwen3-30b-a3b");  // a variant
  EXPECT_EQ(nearest("QWEN3-30", {"qwen3-30b-a3b", "olmoe"}), "");  // five letters are missing
  EXPECT_EQ(nearest("Tier", {"tier", "TIER", "Tie"}), "tier");
  EXPECT_EQ(nearest("TIER", {"tier", "TIER"}), "TIER");
  EXPECT_EQ(nearest("ndoes", {"nodes"}), "nodes");
  EXPECT_EQ(nearest("an-old-name", {"a-node", "a-name", "an-odl-naem"}), "an-odl-naem");
  EXPECT_EQ(nearest(std::string(10'000'000, 'x'), {"nodes", std::string(10'000'000, 'y')}), "");
}

TEST(DidYouMean, IsTheNearestOfAllByBruteForce) {
  std::mt19937 random(1);
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string word = any_word(random);
    std::vector<std::string> candidates(8);
    for (std::string& candidate : candidates) candidate = any_word(random);
    std::string expected;
    std::pair<std::size_t, std::size_t> least{std::max<std::size_t>(1, word.size() / 3) + 1, 0};
    for (const std::string& candidate : candidates) {
      const std::pair place{distance(with_small_as(word), with_small_as(candidate)),
                            distance(word, candidate)};
      if (place < least) expected = candidate, least = place;
    }
    EXPECT_EQ(nearest(word, candidates), expected) << word;
    found += expected.empty() ? 0 : 1;
  }
  EXPECT_GT(found, 50);
  EXPECT_LT(found, 300);
}

}  // namespace
}  // namespace moesim
