// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/taken_sms.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "sim/base/error.h"
#include "sim/plan/check.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

double factor_of(const KernelFactors& factors, bool bound_by_compute) {
  return bound_by_compute ? factors.bound_by_compute : factors.others;
}

}  // namespace

void RunningChain::start(const Progress& progress, OpId first, std::int32_t participant,
                         Seconds now) {
  op_ = first;
  participant_ = participant;
  bound_by_compute_ = progress.is_bound_by_compute(first, participant);
  since_ = now;
  left_ = progress.duration(first, participant);
}

void RunningChain::run(Progress& progress, const KernelFactors& factors, Seconds now) {
  while (running() && since_ <= now) {
    const double factor = factor_of(factors, bound_by_compute_);
    const Seconds end = since_ + left_ * factor;
    if (end > now) {
      left_ -= (now - since_) * (1 / factor);
      since_ = now;
      return;
    }
    since_ = end;
    left_ = Seconds(0);
    const OpId next = progress.next_in_chain(op_);
    if (next.value < 0) return;
    progress.pass_on(op_, participant_, end);
    start(progress, next, participant_, progress.start(next, participant_, end));
  }
}

Seconds RunningChain::end(const Progress& progress, const KernelFactors& factors) const {
  if (!running()) return Seconds(std::numeric_limits<double>::infinity());
  Seconds end = since_ + left_ * factor_of(factors, bound_by_compute_);
  for (OpId op = progress.next_in_chain(op_); op.value >= 0; op = progress.next_in_chain(op)) {
    const double factor = factor_of(factors, progress.is_bound_by_compute(op, participant_));
    end = progress.start(op, participant_, end) + progress.duration(op, participant_) * factor;
  }
  return end;
}

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

namespace {

void check_sms(const Plan& plan, OpId id, int taken, const GpuModel& gpu) {
  if (taken < gpu.sms) return;
  const std::string takes = fmt::format("{} takes {} multiprocessors, but GPU model '{}' ",
                                        describe(plan, id), taken, gpu.name);
  if (gpu.sms > 0) throw Error(takes + fmt::format("has {}", gpu.sms));
  throw Error(takes + "does not say how many it has", "add 'sms' to it");
}

}  // namespace

void check_sms(const Plan& plan, const GpuModels& gpus) {
  const bool alike = std::ranges::all_of(gpus, [&](const auto& gpu) { return gpu == gpus[0]; });
  int fits = 0;  // on every GPU
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const int taken = sms_of(plan, plan[id]);
    if (taken == 0 || taken == fits) continue;
    for (const GpuId gpu : plan[id].group) check_sms(plan, id, taken, *gpus[gpu.index()]);
    if (alike && !plan[id].group.empty()) fits = taken;
  }
}

TakenSms::TakenSms(const PricedPlan& priced) : gpus_(static_cast<std::size_t>(priced.plan().gpus)) {
  const Plan& plan = priced.plan();
  if (!takes_sms(plan)) return;
  for (const Op& op : plan.ops) sms_.push_back(sms_of(plan, op));
  const auto& kernels = priced.fused();
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
