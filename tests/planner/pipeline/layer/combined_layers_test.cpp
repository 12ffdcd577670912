// SPDX-License-Identifier: Apache-2.0
// Launch orders of merged passes, and how long pairs of layers take on two lanes.
#include "sim/planner/pipeline/layer/combined_layers.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/planner/pipeline/layer/lanes.h"

namespace moesim {
namespace {

constexpr CombinedOptions plain_options;
constexpr CombinedOptions delayed{.delay_weight_gradients = true};
constexpr CombinedOptions early{.delay_weight_gradients = true, .early_attention_backward = true};

/// "combineB1": part, kind (F, B whole backward, I, W) and layer.
std::string text(const LayerPiece& piece) {
  static constexpr const char* parts[] = {"attn", "dispatch", "mlp", "combine"};
  return parts[static_cast<std::size_t>(piece.part)] +
         std::string(1, "FBIW"[static_cast<std::size_t>(piece.kind)]) + std::to_string(piece.layer);
}

std::string text(const std::vector<LayerPiece>& pieces) {
  std::string line;
  for (const LayerPiece& piece : pieces) line += (line.empty() ? "" : " ") + text(piece);
  return line;
}

std::string on_lane(const std::vector<LayerPiece>& pieces, LayerLane lane) {
  std::string line;
  for (const LayerPiece& piece : pieces) {
    if (lane_of(piece.part) == lane) line += (line.empty() ? "" : " ") + text(piece);
  }
  return line;
}

TEST(CombinedLayers, LanesOfAPair) {
  const auto pair = combined_layers(1, 1, delayed);
  EXPECT_EQ(on_lane(pair, LayerLane::compute), "attnF0 mlpI0 mlpW0 mlpF0 attnI0 attnW0");
  EXPECT_EQ(on_lane(pair, LayerLane::exchange), "combineB0 dispatchF0 dispatchB0 combineF0");
  EXPECT_EQ(on_lane(combined_layers(1, 1, early), LayerLane::compute),
            "attnF0 mlpI0 mlpW0 attnI0 mlpF0 attnW0");
  EXPECT_EQ(text(combined_layers(1, 1, plain_options)),
            "combineB0 attnF0 mlpB0 dispatchF0 dispatchB0 mlpF0 combineF0 attnB0");
}

TEST(CombinedLayers, LayersLeftOverComeLast) {
  EXPECT_EQ(text(combined_layers(1, 2, delayed)),
            "combineB1 attnF0 mlpI1 dispatchF0 mlpW1 dispatchB1 mlpF0 combineF0 attnI1 attnW1 "
            "combineB0 mlpI0 mlpW0 dispatchB0 attnI0 attnW0");
  EXPECT_EQ(text(combined_layers(2, 1, delayed)),
            "combineB0 attnF0 mlpI0 dispatchF0 mlpW0 dispatchB0 mlpF0 combineF0 attnI0 "
            "attnF1 dispatchF1 mlpF1 combineF1 attnW0");
}

TEST(CombinedLayers, OnePassByItself) {
  EXPECT_EQ(text(combined_layers(2, 0, delayed)),
            "attnF0 dispatchF0 mlpF0 combineF0 attnF1 dispatchF1 mlpF1 combineF1");
  EXPECT_EQ(text(combined_layers(0, 2, plain_options)),
            "combineB1 mlpB1 dispatchB1 attnB1 combineB0 mlpB0 dispatchB0 attnB0");
  EXPECT_EQ(text(combined_layers(0, 1, delayed)), "combineB0 mlpI0 mlpW0 dispatchB0 attnI0 attnW0");
  EXPECT_TRUE(combined_layers(0, 0, delayed).empty());
}

TEST(CombinedLayers, EveryPieceWaitsForTheOneBeforeItInItsPass) {
  for (const CombinedOptions& options : {plain_options, delayed, early}) {
    for (int f = 0; f <= 4; ++f) {
      for (int b = 0; b <= 4; ++b) {
        const auto pieces = combined_layers(f, b, options);
        const int parts = options.delay_weight_gradients ? 6 : 4;
        ASSERT_EQ(std::ssize(pieces), 4 * f + parts * b);
        std::map<std::string, int> places;
        for (int i = 0; i < std::ssize(pieces); ++i) {
          ASSERT_TRUE(places.emplace(text(pieces[static_cast<std::size_t>(i)]), i).second);
        }
        const auto needs = [&](LayerPart part, WorkKind kind, int layer) {
          return std::vector<int>{places.at(text({.part = part, .kind = kind, .layer = layer}))};
        };
        const WorkKind half =
            options.delay_weight_gradients ? WorkKind::input_gradient : WorkKind::backward;
        using enum LayerPart;
        for (const LayerPiece& p : pieces) {
          const auto part = static_cast<int>(p.part);
          std::vector<int> expected;
          if (p.kind == WorkKind::weight_gradient) {
            expected = needs(p.part, half, p.layer);
          } else if (p.kind == WorkKind::forward) {
            if (p.part != attention) {
              expected = needs(static_cast<LayerPart>(part - 1), p.kind, p.layer);
            } else if (p.layer > 0) {
              expected = needs(combine, p.kind, p.layer - 1);
            }
          } else if (p.part != combine) {
            const auto before = static_cast<LayerPart>(part + 1);
            expected = needs(before, before == mlp ? half : WorkKind::backward, p.layer);
          } else if (p.layer + 1 < b) {
            expected = needs(attention, half, p.layer + 1);
          }
          ASSERT_EQ(p.after, expected) << text(p);
        }
      }
    }
  }
}

struct PieceTimes {
  double attn_f, mlp_b, mlp_w, mlp_f, attn_b, attn_w, exchange;
};

double time_of_pairs(int pairs, const PieceTimes& t, const CombinedOptions& options) {
  return test::last_end(
      combined_layers(pairs, pairs, options),
      [](const LayerPiece& piece) { return lane_of(piece.part); },
      [&](const LayerPiece& piece) {
        if (lane_of(piece.part) == LayerLane::exchange) return t.exchange;
        const bool mlp = piece.part == LayerPart::mlp;
        if (piece.kind == WorkKind::forward) return mlp ? t.mlp_f : t.attn_f;
        if (piece.kind == WorkKind::weight_gradient) return mlp ? t.mlp_w : t.attn_w;
        return mlp ? t.mlp_b : t.attn_b;
      });
}

void expect_times(const PieceTimes& t, const CombinedOptions& options, double first, double next) {
  for (int pairs = 1; pairs <= 5; ++pairs) {
    EXPECT_DOUBLE_EQ(time_of_pairs(pairs, t, options), first + (pairs - 1) * next) << pairs;
  }
}

TEST(CombinedLayers, PeriodsOfPairs) {
  expect_times({2, 2, 2, 2, 2, 2, 2}, delayed, 12, 12);
  expect_times({2, 2, 2, 2, 4, 2, 1}, delayed, 14, 14);
  expect_times({2, 2, 2, 2, 2, 2, 3}, delayed, 13, 12);
  expect_times({2, 2, 2, 2, 2, 2, 4}, delayed, 16, 16);
  expect_times({2, 4, 0, 2, 4, 0, 3}, plain_options, 14, 14);
}

// By hand, exchanges of 3: the attention's backward waits for the dispatch's, and the forward of
// the MLP behind it for both.
TEST(CombinedLayers, EarlyAttentionBackwardCostsTime) {
  expect_times({2, 2, 2, 2, 2, 2, 2}, early, 12, 12);
  expect_times({2, 2, 2, 2, 2, 2, 3}, early, 16, 16);
}

}  // namespace
}  // namespace moesim
