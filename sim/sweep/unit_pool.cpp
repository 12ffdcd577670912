// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/unit_pool.h"

#include <utility>

#include "sim/base/wire.h"

namespace moesim {
namespace {

constexpr std::chrono::milliseconds longest_wait(200);

}  // namespace

UnitPool::UnitPool(SweepWork work)
    : work_(std::move(work)),
      pool_({.next = [this] { return next_unit(); },
             .run =
                 [this](std::int64_t unit, const PoolWork::Tell& tell) {
                   return tell(to_bytes(work_.runner.run(unit)));
                 },
             .told =
                 [this](std::int64_t, const std::string& frame) {
                   add(from_bytes<std::vector<SweepRow>>(frame));
                   return true;
                 },
             .lost = [this](std::int64_t unit,
                            const std::string& how) { return runs_again(unit, how); },
             .workers = work_.workers}) {}

std::optional<std::int64_t> UnitPool::next_unit() {
  while (const auto unit = work_.claims.next()) {
    reached_ = *unit + 1;
    if (work_.wanted(*unit)) return unit;
  }
  return std::nullopt;
}

void UnitPool::add(const std::vector<SweepRow>& rows) {
  rows_.insert(rows_.end(), rows.begin(), rows.end());
}

bool UnitPool::runs_again(std::int64_t unit, const std::string& how) {
  if (lost_once_.insert(unit).second) return true;
  add(work_.runner.not_run(unit, sweep_failed, "twice: " + how));
  return false;
}

std::vector<SweepRow> UnitPool::wait() {
  pool_.wait(longest_wait);
  return std::exchange(rows_, {});
}

}  // namespace moesim
