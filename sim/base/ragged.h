// SPDX-License-Identifier: Apache-2.0
// Rows of different lengths in one array.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

namespace moesim {

/// In place of a vector of millions of short vectors: all rows are in one allocation. Rows are
/// added at the end and keep their lengths.
template <class T>
class Ragged {
 public:
  using Element = T;
  Ragged() = default;
  Ragged(std::initializer_list<std::vector<T>> rows) {
    for (const auto& row : rows) add_row(row);
  }

  /// Makes room for `rows` rows that have `elements` elements in all.
  void reserve(std::size_t rows, std::size_t elements) {
    ends_.reserve(rows + 1);
    elements_.reserve(elements);
  }
  void add_row(std::span<const T> row) {
    elements_.insert(elements_.end(), row.begin(), row.end());
    ends_.push_back(elements_.size());
  }
  void add_row(std::initializer_list<T> row) { add_row(std::span(row.begin(), row.size())); }
  /// Adds a row of default values.
  void add_row(std::size_t length) {
    elements_.resize(elements_.size() + length);
    ends_.push_back(elements_.size());
  }

  /// Rows.
  std::size_t size() const { return ends_.size() - 1; }
  bool empty() const { return size() == 0; }
  std::span<T> operator[](std::size_t row) {
    return std::span(elements_).subspan(ends_[row], ends_[row + 1] - ends_[row]);
  }
  std::span<const T> operator[](std::size_t row) const {
    return std::span(elements_).subspan(ends_[row], ends_[row + 1] - ends_[row]);
  }
  /// Elements of all rows.
  std::span<T> elements() { return elements_; }
  bool operator==(const Ragged&) const = default;

 private:
  std::vector<std::size_t> ends_ = {0};  // [row + 1], after the begin of the first row
  std::vector<T> elements_;
};

}  // namespace moesim
