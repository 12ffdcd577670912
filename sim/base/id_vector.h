// SPDX-License-Identifier: Apache-2.0
// Ranges of consecutive ids, and vectors indexed by ids, so that code needs no casts between ids,
// ints and sizes.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// The ids from `first` to `last` - 1, as ids(n) and IdVector::ids() make them.
template <class Id>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = const Id*;
    using reference = Id;

    constexpr Iterator() = default;
    constexpr explicit Iterator(std::int64_t at) : at_(at) {}
    constexpr Id operator*() const { return Id(at_); }
    constexpr Iterator& operator++() { return ++at_, *this; }
    constexpr Iterator operator++(int) { return Iterator(at_++); }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    std::int64_t at_ = 0;
  };

  constexpr IdRange(std::int64_t first, std::int64_t last)
      : first_(first), last_(last < first ? first : last) {}

  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(last_); }
  constexpr std::size_t size() const { return static_cast<std::size_t>(last_ - first_); }
  constexpr bool empty() const { return first_ == last_; }

 private:
  std::int64_t first_, last_;
};

/// 0 .. count - 1: for (const GpuId gpu : ids<GpuId>(gpus)).
template <class Id>
constexpr IdRange<Id> ids(std::int64_t count) {
  return {0, count};
}
/// The ids that index a container: 0 .. size - 1.
template <class Id, class Container>
constexpr IdRange<Id> ids_of(const Container& container) {
  return {0, std::ssize(container)};
}

/// A vector that is indexed by ids: table[gpu] takes a GpuId, and nothing else.
template <class Id, class T>
class IdVector {
 public:
  using value_type = T;
  using const_iterator = typename std::vector<T>::const_iterator;

  IdVector() = default;
  /// `value` for each of `count` ids.
  explicit IdVector(std::int64_t count, const T& value = T())
      : items_(static_cast<std::size_t>(count), value) {}
  IdVector(std::initializer_list<T> items) : items_(items) {}
  explicit IdVector(std::vector<T> items) : items_(std::move(items)) {}

  decltype(auto) operator[](Id id) { return items_[id.index()]; }
  decltype(auto) operator[](Id id) const { return items_[id.index()]; }

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  IdRange<Id> ids() const { return {0, std::ssize(items_)}; }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  /// Appends the item and returns its id.
  Id push_back(T item) {
    items_.push_back(std::move(item));
    return Id(std::ssize(items_) - 1);
  }
  void assign(std::int64_t count, const T& value) {
    items_.assign(static_cast<std::size_t>(count), value);
  }
  void resize(std::int64_t count) { items_.resize(static_cast<std::size_t>(count)); }

  /// For code that does not use ids.
  std::span<T> to_span() { return items_; }
  std::span<const T> to_span() const { return items_; }
  std::vector<T> take() && { return std::move(items_); }

  bool operator==(const IdVector&) const = default;

 private:
  std::vector<T> items_;
};

}  // namespace moesim
