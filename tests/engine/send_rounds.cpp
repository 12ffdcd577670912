// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/send_rounds.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace moesim::test {
namespace {

using Table = std::vector<std::vector<std::int64_t>>;

struct PortSums {
  std::vector<std::int64_t> rows, columns;
};

PortSums port_sums(const ByteMatrix& traffic) {
  const auto n = static_cast<std::size_t>(traffic.ranks());
  PortSums sums{.rows = std::vector<std::int64_t>(n), .columns = std::vector<std::int64_t>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto& entry : traffic.row(GpuId(static_cast<std::int64_t>(i)))) {
      if (entry.to.index() == i) continue;
      sums.rows[i] += traffic.bytes(entry).value;
      sums.columns[entry.to.index()] += traffic.bytes(entry).value;
    }
  }
  return sums;
}

/// Dummy traffic that lifts every row and column to `sum`: row by row, from the left.
Table padding(const PortSums& sums, std::int64_t sum) {
  const std::size_t n = sums.rows.size();
  Table pad(n, std::vector<std::int64_t>(n));
  std::vector<std::int64_t> column_lacks(n);
  for (std::size_t j = 0; j < n; ++j) column_lacks[j] = sum - sums.columns[j];
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t lacks = sum - sums.rows[i];
    for (std::size_t j = 0; j < n && lacks > 0; ++j) {
      pad[i][j] = std::min(lacks, column_lacks[j]);
      lacks -= pad[i][j];
      column_lacks[j] -= pad[i][j];
    }
  }
  return pad;
}

/// A perfect matching of senders and receivers over positive entries, mended after each round.
class Matching {
 public:
  explicit Matching(std::size_t n) : to_(n, none), from_(n, none) {}

  /// Matches every sender; equal row and column sums make that possible.
  void complete(const Table& real, const Table& pad) {
    for (std::size_t i = 0; i < to_.size(); ++i) {
      if (to_[i] != none && real[i][to_[i]] + pad[i][to_[i]] > 0) continue;
      if (to_[i] != none) from_[to_[i]] = none;
      to_[i] = none;
    }
    for (std::size_t i = 0; i < to_.size(); ++i) {
      std::vector<bool> tried(to_.size());
      if (to_[i] == none && !augment(i, real, pad, tried)) {
        throw std::logic_error("peel_rounds: row and column sums differ");
      }
    }
  }
  std::size_t to(std::size_t from) const { return to_[from]; }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  bool augment(std::size_t i, const Table& real, const Table& pad, std::vector<bool>& tried) {
    for (std::size_t j = 0; j < to_.size(); ++j) {
      if (tried[j] || real[i][j] + pad[i][j] == 0) continue;
      tried[j] = true;
      if (from_[j] == none || augment(from_[j], real, pad, tried)) {
        to_[i] = j;
        from_[j] = i;
        return true;
      }
    }
    return false;
  }

  std::vector<std::size_t> to_, from_;
};

}  // namespace

Bytes busiest_port(const ByteMatrix& traffic) {
  const PortSums sums = port_sums(traffic);
  std::int64_t most = 0;
  for (const std::int64_t s : sums.rows) most = std::max(most, s);
  for (const std::int64_t s : sums.columns) most = std::max(most, s);
  return Bytes(most);
}

std::vector<SendRound> peel_rounds(const ByteMatrix& traffic) {
  const auto n = static_cast<std::size_t>(traffic.ranks());
  std::int64_t left = busiest_port(traffic).value;
  Table pad = padding(port_sums(traffic), left);
  Table real(n, std::vector<std::int64_t>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto& entry : traffic.row(GpuId(static_cast<std::int64_t>(i)))) {
      if (entry.to.index() != i) real[i][entry.to.index()] = traffic.bytes(entry).value;
    }
  }
  Matching matching(n);
  std::vector<SendRound> rounds;
  while (left > 0) {
    matching.complete(real, pad);
    std::int64_t length = left;
    for (std::size_t i = 0; i < n; ++i) {
      length = std::min(length, real[i][matching.to(i)] + pad[i][matching.to(i)]);
    }
    SendRound round{.length = Bytes(length), .sends = {}};
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t j = matching.to(i);
      const std::int64_t bytes = std::min(real[i][j], length);
      real[i][j] -= bytes;
      pad[i][j] -= length - bytes;
      if (bytes == 0) continue;
      round.sends.push_back(
          {GpuId(static_cast<std::int64_t>(i)), GpuId(static_cast<std::int64_t>(j)), Bytes(bytes)});
    }
    rounds.push_back(std::move(round));
    left -= length;
  }
  return rounds;
}

}  // namespace moesim::test
