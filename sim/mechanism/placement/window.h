// SPDX-License-Identifier: Apache-2.0
// What planners remember of the steps before: the newest few.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

namespace moesim {

/// The newest values of a series, such as the loads of one layer in each step. A value is known
/// once `lag` values have been added, itself included, as if it came late.
template <class T>
class Window {
 public:
  explicit Window(int most, int lag = 1)
      : most_(static_cast<std::size_t>(most)), unknown_(static_cast<std::size_t>(lag) - 1) {}
  void add(T value) {
    values_.push_back(std::move(value));
    if (values_.size() > most_ + unknown_) values_.pop_front();
  }
  /// A part of a step: one that does not begin it is added to the newest value, by +=.
  void add(T part, bool begins) {
    if (begins) return add(std::move(part));
    values_.back() += part;
  }
  bool empty() const { return known() == 0; }
  int size() const { return static_cast<int>(known()); }
  /// The value `age` steps before the newest that is known, which has age 0.
  const T& newest(int age = 0) const {
    return values_[known() - 1 - static_cast<std::size_t>(age)];
  }
  /// Sums all values that are known, by +=. There must be one.
  T sum() const {
    T sum = values_.front();
    for (std::size_t i = 1; i < known(); ++i) sum += values_[i];
    return sum;
  }

 private:
  std::size_t known() const { return values_.size() - std::min(unknown_, values_.size()); }

  std::size_t most_;
  std::size_t unknown_;   // of the newest
  std::deque<T> values_;  // oldest first
};

}  // namespace moesim
