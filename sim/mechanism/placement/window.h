// SPDX-License-Identifier: Apache-2.0
// What planners remember of the steps before: the newest few.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

namespace moesim {

/// The newest values of a series, such as the loads of one layer in each step.
template <class T>
class Window {
 public:
  explicit Window(int most) : most_(static_cast<std::size_t>(most)) {}
  void add(T value) {
    values_.push_back(std::move(value));
    if (values_.size() > most_) values_.pop_front();
  }
  /// A part of a step: one that does not begin it is added to the newest value, by +=.
  void add(T part, bool begins) {
    if (begins) return add(std::move(part));
    values_.back() += part;
  }
  bool empty() const { return values_.empty(); }
  int size() const { return static_cast<int>(values_.size()); }
  /// The value `age` steps before the newest, which has age 0.
  const T& newest(int age = 0) const {
    return values_[values_.size() - 1 - static_cast<std::size_t>(age)];
  }
  /// Sums all values, by +=. There must be one.
  T sum() const {
    T sum = values_.front();
    for (std::size_t i = 1; i < values_.size(); ++i) sum += values_[i];
    return sum;
  }

 private:
  std::size_t most_;
  std::deque<T> values_;  // oldest first
};

}  // namespace moesim
