// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/best_pairs.h"

#include <limits>

namespace moesim {
namespace {

constexpr int nobody = -1;

/// Adds one row after the other to a matching of least cost; place n of the columns is a dummy that
/// holds the row to be added.
class PairSearch {
 public:
  explicit PairSearch(const std::vector<std::vector<int>>& values)
      : values_(values),
        n_(values.size()),
        of_row_(n_),
        of_column_(n_ + 1),
        owner_(n_ + 1, nobody),
        before_(n_ + 1) {}

  void add(std::size_t row) {
    owner_[n_] = static_cast<int>(row);
    std::vector<int> slack(n_, std::numeric_limits<int>::max());
    std::vector<bool> reached(n_ + 1);
    std::size_t column = n_;
    while (owner_[column] != nobody) {
      reached[column] = true;
      column = extend(column, slack, reached);
    }
    for (; column != n_; column = before_[column]) owner_[column] = owner_[before_[column]];
  }

  std::vector<int> columns() const {
    std::vector<int> columns(n_);
    for (std::size_t c = 0; c < n_; ++c) {
      columns[static_cast<std::size_t>(owner_[c])] = static_cast<int>(c);
    }
    return columns;
  }

 private:
  /// The next column of the tree, after potentials have made an edge to it tight.
  std::size_t extend(std::size_t from, std::vector<int>& slack, std::vector<bool>& reached) {
    const auto row = static_cast<std::size_t>(owner_[from]);
    std::size_t next = n_;
    for (std::size_t c = 0; c < n_; ++c) {
      if (reached[c]) continue;
      const int reduced = -values_[row][c] - of_row_[row] - of_column_[c];
      if (reduced < slack[c]) slack[c] = reduced, before_[c] = from;
      if (next == n_ || slack[c] < slack[next]) next = c;
    }
    const int step = slack[next];
    for (std::size_t c = 0; c <= n_; ++c) {
      if (reached[c]) {
        of_row_[static_cast<std::size_t>(owner_[c])] += step;
        of_column_[c] -= step;
      } else if (c < n_) {
        slack[c] -= step;
      }
    }
    return next;
  }

  const std::vector<std::vector<int>>& values_;
  std::size_t n_;
  std::vector<int> of_row_, of_column_;  // potentials
  std::vector<int> owner_;               // [column] its row
  std::vector<std::size_t> before_;      // [column] the one before it on its path
};

}  // namespace

std::vector<int> best_pairs(const std::vector<std::vector<int>>& values) {
  PairSearch search(values);
  for (std::size_t row = 0; row < values.size(); ++row) search.add(row);
  return search.columns();
}

}  // namespace moesim
