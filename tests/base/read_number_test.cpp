// SPDX-License-Identifier: Apache-2.0
#include "sim/base/read_number.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

namespace moesim {
namespace {

struct Read {
  double value;
  std::string rest;
  std::errc status;
};

Read read(const std::string& text) {
  double value = -7;
  const auto [end, status] = read_number(text.data(), text.data() + text.size(), value);
  return {value, std::string(end, text.data() + text.size()), status};
}

TEST(ReadNumberTest, TakesAsManyCharactersAsMakeANumber) {
  for (const auto& [text, value, rest] :
       {std::tuple("1.5 GB", 1.5, " GB"), std::tuple("-2e3", -2000.0, ""),
        std::tuple("5e", 5.0, "e"), std::tuple(".25,", 0.25, ","), std::tuple("0x10", 0.0, "x10"),
        std::tuple("-0x1", 0.0, "x1")}) {
    const Read of_text = read(text);
    EXPECT_EQ(of_text.status, std::errc()) << text;
    EXPECT_EQ(of_text.value, value) << text;
    EXPECT_EQ(of_text.rest, rest) << text;
  }
}

TEST(ReadNumberTest, OtherTextIsLeftAlone) {
  for (const std::string text : {"", "+1", " 1", "x", "-", "-.", "e5"}) {
    const Read of_text = read(text);
    EXPECT_EQ(of_text.status, std::errc::invalid_argument) << text;
    EXPECT_EQ(of_text.value, -7) << text;
    EXPECT_EQ(of_text.rest, text);
  }
  EXPECT_EQ(read("1e-310").value, 1e-310);
  EXPECT_EQ(read("1e999").status, std::errc::result_out_of_range);
  EXPECT_EQ(read("1e999").value, -7);
}

}  // namespace
}  // namespace moesim
