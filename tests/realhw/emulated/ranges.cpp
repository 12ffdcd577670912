// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/emulated/ranges.h"

#include <mutex>
#include <set>
#include <utility>

namespace moesim::emulated {
namespace {

std::mutex mutex;
std::set<std::string> names;
thread_local std::vector<std::string> open;

}  // namespace

int begin_range(const char* name) {
  const std::lock_guard lock(mutex);
  names.insert(name);
  open.emplace_back(name);
  return static_cast<int>(open.size()) - 1;
}

int end_range() {
  if (open.empty()) return -1;
  open.pop_back();
  return static_cast<int>(open.size());
}

const std::string& current_range() {
  static const std::string none;
  return open.empty() ? none : open.back();
}

std::vector<std::string> take_ranges() {
  const std::lock_guard lock(mutex);
  const auto taken = std::exchange(names, {});
  return {taken.begin(), taken.end()};
}

}  // namespace moesim::emulated
