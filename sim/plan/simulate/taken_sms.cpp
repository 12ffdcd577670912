// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/taken_sms.h"

#include <algorithm>

#include "sim/plan/fused_kernels.h"
#include "sim/transport/transport.h"

namespace moesim {

int sms_of(const Plan& plan, const Op& op) {
  const Exchange* exchange = op.exchange();
  if (exchange == nullptr) return 0;
  const bool ring =
      carries_parameters(op.stream) || op.stream == Stream::tp || op.stream == Stream::cp;
  const Transport* others = plan.transports.others.get();
  return exchange->sms > 0 || !ring || others == nullptr ? exchange->sms : others->sms;
}

bool takes_sms(const Plan& plan) {
  return std::ranges::any_of(plan.ops, [&](const Op& op) { return sms_of(plan, op) > 0; });
}

TakenSms::TakenSms(const Plan& plan) : gpus_(static_cast<std::size_t>(plan.gpus)) {
  if (!takes_sms(plan)) return;
  for (const Op& op : plan.ops) sms_.push_back(sms_of(plan, op));
  const auto kernels = fused_kernels(plan);
  if (kernels.empty()) return;
  kernel_of_.assign(plan.ops.size(), -1);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    for (const OpId op : kernels[k]) kernel_of_[op.index()] = static_cast<std::int32_t>(k);
  }
}

void TakenSms::change(OpId exchange, GpuId gpu, int by) {
  const int sms = sms_.empty() ? 0 : sms_[exchange.index()];
  if (sms == 0) return;
  Gpu& at = gpus_[gpu.index()];
  const std::int32_t kernel = kernel_of_.empty() ? -1 : kernel_of_[exchange.index()];
  if (kernel >= 0) {
    auto inside = std::ranges::find(at.inside, kernel, &std::pair<std::int32_t, int>::first);
    if (inside == at.inside.end()) inside = at.inside.insert(inside, {kernel, 0});
    const int before = inside->second;
    const int after = inside->second += by;
    if (after == 0) at.inside.erase(inside);
    if (before > 0 && after > 0) return;  // another phase holds them
  }
  at.taken += by * sms;
}

}  // namespace moesim
