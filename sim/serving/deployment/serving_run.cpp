// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/serving_run.h"

namespace moesim {

InstanceSummary summary_of(const ServingInstance& instance, const EngineOptions& engine) {
  InstanceSummary of;
  of.counts = instance.counts();
  of.kv_left = instance.kv_blocks_in_use();
  of.kv_capacity = engine.kv.capacity;
  of.rank_count = engine.ranks;
  for (const RankScheduler& rank : instance.ranks()) of.ranks += rank.counts();
  return of;
}

}  // namespace moesim
