// SPDX-License-Identifier: Apache-2.0
// Both ways to read a number, of which a build uses one.
#include "sim/base/read_number.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "sim/base/read_number_by_c.h"

namespace moesim {
namespace {

using Reader = std::from_chars_result (*)(const char* first, const char* last, double& value);

struct Read {
  double value;
  std::string rest;
  std::errc status;
};

class ReadNumberTest : public testing::TestWithParam<Reader> {
 protected:
  static Read read(const std::string& text) {
    double value = -7;
    const auto [end, status] = GetParam()(text.data(), text.data() + text.size(), value);
    return {value, std::string(end, text.data() + text.size()), status};
  }
};

TEST_P(ReadNumberTest, TakesAsManyCharactersAsMakeANumber) {
  for (const auto& [text, value, rest] :
       {std::tuple("1.5 GB", 1.5, " GB"), std::tuple("-2e3", -2000.0, ""),
        std::tuple("5e", 5.0, "e"), std::tuple(".25,", 0.25, ","), std::tuple("0x10", 0.0, "x10"),
        std::tuple("-0x1", 0.0, "x1"), std::tuple("0", 0.0, ""), std::tuple("-0.5", -0.5, "")}) {
    const Read of_text = read(text);
    EXPECT_EQ(of_text.status, std::errc()) << text;
    EXPECT_EQ(of_text.value, value) << text;
    EXPECT_EQ(of_text.rest, rest) << text;
  }
}

TEST_P(ReadNumberTest, OtherTextIsLeftAlone) {
  for (const std::string text : {"", "+1", " 1", "x", "-", "-.", "e5"}) {
    const Read of_text = read(text);
    EXPECT_EQ(of_text.status, std::errc::invalid_argument) << text;
    EXPECT_EQ(of_text.value, -7) << text;
    EXPECT_EQ(of_text.rest, text);
  }
  EXPECT_EQ(read("1e-310").value, 1e-310);
  for (const std::string text : {"1e999", "-1e999", "1e-999"}) {
    EXPECT_EQ(read(text).status, std::errc::result_out_of_range) << text;
    EXPECT_EQ(read(text).value, -7) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ReadNumberTest,
                         testing::Values(static_cast<Reader>(&read_number),
                                         static_cast<Reader>(&read_number_by_c<double>)));

}  // namespace
}  // namespace moesim
