// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/drawn_losses.h"

namespace moesim {
namespace {

int parts_of(const ServingPool& pool, int ranks) {
  return pool.instances * (pool.engine.ranks / ranks);
}

}  // namespace

int parts_that_fail(const Deployment& deployment, int ranks) {
  return parts_of(deployment.pool, ranks) +
         (deployment.decode ? parts_of(*deployment.decode, ranks) : 0);
}

DrawnLosses::DrawnLosses(const Deployment& deployment)
    : deployment_(deployment),
      random_(deployment.loss_rate ? deployment.loss_rate->seed : std::uint64_t{0}) {}

std::optional<RankLoss> DrawnLosses::next() {
  if (!deployment_.loss_rate) return std::nullopt;
  const LossRate& rate = *deployment_.loss_rate;
  const int all = parts_that_fail(deployment_, rate.ranks);
  last_ += rate.between * (-portable_log(1 - random_.uniform()) / all);
  int part = static_cast<int>(random_.below(static_cast<std::uint32_t>(all)));
  const int of_pool = parts_of(deployment_.pool, rate.ranks);
  const bool decodes = part >= of_pool;
  if (decodes) part -= of_pool;
  const int each = (decodes ? *deployment_.decode : deployment_.pool).engine.ranks / rate.ranks;
  return RankLoss{last_,      part / each, part % each * rate.ranks, rate.recovery, rate.back,
                  rate.ranks, decodes};
}

}  // namespace moesim
