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
  RankLoss loss{last_, 0, 0, rate.recovery, rate.back, rate.ranks, false};
  const int of_pool = parts_of(deployment_.pool, rate.ranks);
  if (part >= of_pool) {
    part -= of_pool;
    loss.decodes = true;
  }
  const int each =
      (loss.decodes ? *deployment_.decode : deployment_.pool).engine.ranks / rate.ranks;
  loss.instance = part / each;
  loss.rank = part % each * rate.ranks;
  return loss;
}

}  // namespace moesim
