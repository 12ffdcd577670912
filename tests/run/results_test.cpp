// SPDX-License-Identifier: Apache-2.0
// Every field of a result is the same on the other side of a worker's pipe. What == compares comes
// from the compiler, so that neither side of the pipe can leave a field out unnoticed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/wire.h"
#include "sim/evidence/validation.h"
#include "sim/report/bounds_table.h"
#include "sim/report/explain_text.h"
#include "sim/report/metrics.h"

namespace moesim {
namespace {

/// Gives every number in a value another value than before, and every list two elements.
class Filler {
 public:
  template <class T>
  void fill(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      value = static_cast<T>(std::is_enum_v<T> ? 1 : ++next_);
    } else if constexpr (is_number<T>) {
      value = T(static_cast<decltype(value.value)>(++next_));
    } else if constexpr (std::is_aggregate_v<T>) {
      with_fields(value, [this](auto&... fields) { (this->fill(fields), ...); });
    } else {
      fill_list(value);
    }
  }

 private:
  void fill_list(std::string& text) { text = "text " + std::to_string(++next_); }
  template <class T>
  void fill_list(std::vector<T>& list) {
    list.resize(2);
    for (T& element : list) fill(element);
  }
  template <class T>
  void fill_list(std::optional<T>& value) {
    fill(value.emplace());
  }
  template <class Key, class Value>
  void fill_list(std::map<Key, Value>& map) {
    for (int i = 0; i < 2; ++i) {
      Key key{};
      fill(key);
      fill(map[key]);
    }
  }

  int next_ = 0;
};

template <class T>
T filled() {
  T value{};
  Filler().fill(value);
  return value;
}

TEST(Results, MetricsComeBackWithEveryField) {
  const auto metrics = filled<RunMetrics>();
  EXPECT_EQ(from_bytes<RunMetrics>(to_bytes(metrics)), metrics);
  EXPECT_NE(metrics, RunMetrics());
  ASSERT_EQ(metrics.layers.size(), 2u);
  EXPECT_NE(metrics.layers.begin()->second.parameter_traffic.link_class, metrics.total.link_bytes);
}

TEST(Results, SimulatedCasesComeBackWithEveryField) {
  const auto simulated = filled<SimulatedCase>();
  const auto again = from_bytes<SimulatedCase>(to_bytes(simulated));
  EXPECT_EQ(again.plans, simulated.plans);
  EXPECT_EQ(again.steps, simulated.steps);
  EXPECT_EQ(again.ops.kinds, simulated.ops.kinds);
  EXPECT_EQ(again.ops.waiting, simulated.ops.waiting);
}

TEST(Results, TimelinesComeBack) {
  const Timeline timeline{{{{Seconds(0), Seconds(1)}, {Seconds(0.5), Seconds(2)}}, {}}, Seconds(2)};
  const auto again = from_bytes<Timeline>(to_bytes(timeline));
  EXPECT_EQ(again.ops, timeline.ops);
  EXPECT_EQ(again.makespan, timeline.makespan);
}

TEST(Results, BoundsComeBack) {
  const BoundSums sums{Seconds(1), Seconds(2), 0.5,      Bytes(3),
                       {4, 5},     {2, 8},     Bytes(2), Seconds(0.5)};
  const auto again = from_bytes<BoundSums>(to_bytes(sums));
  EXPECT_EQ(again.alone, sums.alone);
  EXPECT_EQ(again.bound, sums.bound);
  EXPECT_EQ(again.least_ratio, sums.least_ratio);
  EXPECT_EQ(again.between_hosts, sums.between_hosts);
  EXPECT_EQ(again.classes, sums.classes);
  EXPECT_EQ(again.phases, sums.phases);
  EXPECT_EQ(again.least_between_hosts, sums.least_between_hosts);
  EXPECT_EQ(again.dedup, sums.dedup);
}

}  // namespace
}  // namespace moesim
