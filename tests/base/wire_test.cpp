// SPDX-License-Identifier: Apache-2.0
#include "sim/base/wire.h"

#include <gtest/gtest.h>

#include <limits>

#include "sim/base/error.h"
#include "sim/base/ragged.h"

namespace moesim {
namespace wired {  // not anonymous: clang converts AnyField only to types with linkage

enum class Color { red, green };

struct Leaf {
  double number = 0;
  std::array<Bytes, 2> bytes = {};
  bool operator==(const Leaf&) const = default;
};

struct Everything {
  bool flag = false;
  Color color = Color::red;
  Seconds seconds;
  OpId op;
  std::string text;
  std::vector<std::string> texts;
  std::map<int, Leaf> leaves;
  std::set<int> numbers;
  std::pair<std::string, Leaf> pair;
  std::optional<Leaf> some, none;
  std::vector<std::vector<Bytes>> nested;
  Ragged<Seconds> ragged;
  bool operator==(const Everything&) const = default;
};

}  // namespace wired

namespace {

using wired::Color, wired::Everything, wired::Leaf;

static_assert(count_fields<Leaf>() == 2);
static_assert(count_fields<Everything>() == 13);
static_assert(count_fields<Diagnostic>() == 7);

Everything everything() {
  const Leaf leaf{0.1, {Bytes(1), Bytes(-2)}};
  return {true,
          Color::green,
          Seconds(1e-300),
          OpId(7),
          std::string("a\0b\n", 4),
          {"", "x"},
          {{-1, leaf}, {3, {}}},
          {5, 8},
          {"pair", leaf},
          leaf,
          std::nullopt,
          {{}, {Bytes(1LL << 62), Bytes(4)}},
          {{Seconds(1), Seconds(-0.5)}, {}, {Seconds(3)}}};
}

TEST(Wire, ReturnsEveryKindOfFieldAsItWas) {
  EXPECT_EQ(from_bytes<Everything>(to_bytes(everything())), everything());
  EXPECT_EQ(from_bytes<Everything>(to_bytes(Everything{})), Everything{});
}

TEST(Wire, KeepsNumbersToTheBit) {
  for (const double number : {0.1, -0.0, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::denorm_min()}) {
    const double back = from_bytes<double>(to_bytes(number));
    EXPECT_EQ(std::memcmp(&back, &number, sizeof number), 0);
  }
}

TEST(Wire, RefusesWhatIsCutOrTooLong) {
  const std::string bytes = to_bytes(everything());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(from_bytes<Everything>(bytes.substr(0, size)), std::runtime_error);
  }
  EXPECT_THROW(from_bytes<Everything>(bytes + "x"), std::runtime_error);
}

}  // namespace
}  // namespace moesim
