// SPDX-License-Identifier: Apache-2.0
// Mistakes in transport files are reported with their line and a hint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/transport/fixtures.h"

namespace moesim::test {
namespace {

using testing::HasSubstr;

std::string mistakes_of(const std::string& text) {
  return error_of([&] { transport_of(text); });
}

TEST(TransportFile, MistakesAreTold) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"start_ups: 3 us\n", "did you mean 'start_up'?"},
      {"start_up: 3\n", "us"},
      {"start_up: {host: 3 us, fabric: 2 us}\n",
       "'start_up.fabric' is less than the time of a nearer tier"},
      {"per_row: {fabric: 3 us, wan: 2 us}\n",
       "'per_row.wan' is less than the time of a nearer tier"},
      {"per_peer: 3 us\n", "'per_peer' has no effect without 'start_up'"},
      {"flags: 3 us\n", "'flags' has no effect without 'start_up'"},
      {"first_row: 1 GB/s\n", "'first_row' has no effect without 'start_up'"},
      {"start_up: 3 us\nfirst_row: 0 GB/s\n", "first_row"},
      {"links:\n  - {class: nvlink, of: 10 GB/s}\n", "states none of 'efficiency', 'rates'"},
      {"links:\n  - {class: nvlink, of: 10 GB/s, efficiency: 1.5}\n", "efficiency"},
      {"links:\n  - {class: nvlink, of: 10 GB/s, rates: [{size: 1 MB, rate: 11 GB/s}]}\n",
       "has a rate of 11 GB/s, above its 'of' of 10 GB/s"},
      {"links:\n  - {class: nvlink, of: 10 GB/s, calibration: h100-nvlink}\n",
       "was not measured on a link of 10 GB/s"},
      {"links:\n  - {class: nic, of: 10 GB/s, efficiency: 1}\n"
       "  - {class: nic, of: 5 GB/s, efficiency: 1}\n",
       "'of' ascends within a class and network"},
      {"links:\n  - {class: nic, of: 5 GB/s, efficiency: 1}\n"
       "  - {class: nic, of: 5 GB/s, efficiency: 1}\n",
       "'of' ascends within a class and network"},
      {"start_up: 1.5 s\n", "start_up"},
      {"links:\n  - {class: nic, of: 5 GB/s, efficiency: 1}\n"
       "  - {class: nic, of: 10 GB/s, efficiency: 0.4}\n",
       "'nic' at 10 GB/s takes longer than at 5 GB/s for some sizes"},
      {"links:\n  - {class: nic, of: 5 GB/s, efficiency: 1}\n"
       "  - {class: nic, network: efa, of: 10 GB/s, efficiency: 1}\n",
       "are given with and without 'network'"}};
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(mistakes_of(text), HasSubstr(message)) << text;
  }
}

TEST(TransportFile, TakesTheTablesOfCalibrations) {
  const Transport t =
      transport_of("links:\n  - {class: nvlink, of: 450 GB/s, calibration: h100-nvlink}\n");
  ASSERT_EQ(t.links.size(), 1U);
  EXPECT_GT(t.links[0].rates->points().size(), 5U);
}

TEST(TransportFile, TheWayBackTakesOverWhatItDoesNotState) {
  const Transport t = transport_of(
      "start_up: 3 us\nlinks:\n  - {class: nic, of: 5 GB/s, efficiency: 1}\n"
      "combine: {start_up: 4 us}\n");
  ASSERT_TRUE(t.combine);
  EXPECT_EQ(t.combine->links.size(), 1U);
  EXPECT_EQ(t.combine->start_up->host, Seconds(4e-6));
  EXPECT_EQ(t.start_up->host, Seconds(3e-6));
}

}  // namespace
}  // namespace moesim::test
