// SPDX-License-Identifier: Apache-2.0
#include "realhw/job/job.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstring>
#include <set>

namespace moesim {
namespace {

template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

template <class Value>
std::vector<Value> values_in(const std::string& bytes) {
  std::vector<Value> values(bytes.size() / sizeof(Value));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

std::vector<std::string> all_gather(Job& job, const std::string& mine) {
  std::string joined;
  for (const std::string& one : job.gather(mine)) {
    const std::uint64_t size = one.size();
    joined.append(reinterpret_cast<const char*>(&size), sizeof size);
    joined += one;
  }
  joined = job.broadcast(joined);
  std::vector<std::string> all;
  for (std::size_t at = 0; at < joined.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, joined.data() + at, sizeof size);
    all.push_back(joined.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return all;
}

std::vector<std::int64_t> sums_over_ranks(Job& job, const std::vector<std::int64_t>& values) {
  std::vector<std::int64_t> sums(values.size());
  for (const std::string& one : all_gather(job, bytes_of(values))) {
    const auto of_rank = values_in<std::int64_t>(one);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank.at(i);
  }
  return sums;
}

std::vector<double> gather_on_first(Job& job, const std::vector<double>& values) {
  std::string joined;
  for (const std::string& one : job.gather(bytes_of(values))) joined += one;
  return values_in<double>(joined);
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size());
  return name.data();
}

int count_hosts(Job& job) {
  const auto names = all_gather(job, host_name());
  return static_cast<int>(std::set<std::string>(names.begin(), names.end()).size());
}

}  // namespace moesim
