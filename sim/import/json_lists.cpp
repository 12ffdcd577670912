// SPDX-License-Identifier: Apache-2.0
// Regular arrays of numbers out of nested lists.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "sim/base/error.h"
#include "sim/import/count_limits.h"
#include "sim/import/json_items.h"

namespace moesim {
namespace {

/// Fills a regular array; the first list of an axis says how long all are.
class ListReader {
 public:
  ListReader(std::size_t axes, const std::string& where, const char* of)
      : shape_(axes, -1), where_(where), of_(of) {}

  void read(const JsonElement& list, std::size_t axis) {
    simdjson::dom::array items;
    if (list.get(items) != simdjson::SUCCESS) {
      if (shape_[axis] >= 0) uneven();
      throw error_in(where_, fmt::format("holds {} of {} axes, not {}", of_, axis, shape_.size()));
    }
    std::int64_t count = 0;
    for (const JsonElement item : items) {
      if (axis + 1 < shape_.size()) {
        read(item, axis + 1);
      } else {
        number(item);
      }
      ++count;
    }
    if (shape_[axis] < 0) shape_[axis] = count;
    if (shape_[axis] != count) uneven();
  }
  NpyArray take() {
    for (std::int64_t& size : shape_) size = std::max<std::int64_t>(size, 0);
    return NpyArray::of(std::move(values_), std::move(shape_), where_);
  }

 private:
  void number(const JsonElement& item) {
    std::int64_t value = 0;
    double real = 0;  // a writer of counts may have made means of them
    bool whole = item.get(value) == simdjson::SUCCESS;
    if (!whole && item.get(real) == simdjson::SUCCESS && std::abs(real) < 9e15) {
      value = static_cast<std::int64_t>(real);
      whole = static_cast<double>(value) == real;
    }
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (!whole || value < -most - 1) {
      throw error_in(where_, fmt::format("holds {} that are not whole numbers", of_));
    }
    if (value > most) {
      const bool counts = std::string_view(of_) == "counts";
      throw error_in(where_,
                     fmt::format("holds {} among its {}; at most {} can be", value, of_, most),
                     counts ? fewer_tokens_hint : "");
    }
    values_.push_back(static_cast<std::int32_t>(value));
  }
  [[noreturn]] void uneven() const {
    throw error_in(where_, fmt::format("holds {} of different lengths", of_),
                   "every token has the same layers and choices");
  }

  std::vector<std::int64_t> shape_;
  std::vector<std::int32_t> values_;
  const std::string& where_;
  const char* of_;
};

}  // namespace

std::size_t axes_of(const JsonElement& lists) {
  simdjson::dom::array items;
  if (lists.get(items) != simdjson::SUCCESS) return 0;
  return 1 + (items.begin() == items.end() ? 0 : axes_of(*items.begin()));
}

NpyArray array_of_lists(const JsonElement& lists, std::size_t axes, const std::string& where,
                        const char* of) {
  if (!lists.is_array()) throw error_in(where, fmt::format("holds no lists of {}", of));
  ListReader reader(axes, where, of);
  reader.read(lists, 0);
  return reader.take();
}

}  // namespace moesim
