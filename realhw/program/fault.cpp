// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/fault.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "sim/base/error.h"
#include "sim/base/read_number.h"

namespace moesim {

Fault parse_fault(const std::string& text) {
  const auto colon = text.find(':'), at = text.rfind('@');
  const Error unreadable(fmt::format("--fault: '{}' is not a fault", text),
                         "such as kill:dispatch-alltoall@3 (kill, stop or nan, an op, a rank)");
  if (colon == std::string::npos || at == std::string::npos || at < colon) throw unreadable;
  Fault fault;
  const std::string kind = text.substr(0, colon);
  if (kind != "kill" && kind != "stop" && kind != "nan") throw unreadable;
  fault.kind = kind == "kill"   ? Fault::Kind::kill
               : kind == "stop" ? Fault::Kind::stop
                                : Fault::Kind::nan;
  fault.op = text.substr(colon + 1, at - colon - 1);
  const int rank = parse_integer<int>(std::string_view(text).substr(at + 1)).value_or(-1);
  if (rank < 0 || fault.op.empty()) throw unreadable;
  fault.rank = GpuId(rank);
  return fault;
}

void check_fault(const Fault& fault, const Plan& plan, const RankProgram& program) {
  bool found = false, checked = false;
  for (const RankStep& step : program.steps) {
    if (plan[step.op].label != fault.op) continue;
    found = true;
    for (const auto* calls : {&step.before, &step.after}) {
      checked = checked || std::any_of(calls->begin(), calls->end(), [](const Call& call) {
                  return std::holds_alternative<FiniteCheck>(call);
                });
    }
  }
  if (!found) {
    throw Error(fmt::format("--fault: rank {} has no op '{}' in {}", fault.rank.value, fault.op,
                            plan.name));
  }
  if (fault.kind == Fault::Kind::nan && !checked) {
    throw Error(fmt::format("--fault: '{}' makes no numbers", fault.op), "take fc1, say");
  }
}

FaultDrill::FaultDrill(const std::optional<Fault>& fault, const Plan& plan, GpuId rank)
    : plan_(plan) {
  if (fault && fault->rank == rank) fault_ = fault;
}

void FaultDrill::at_start(const RankStep& step) const {
  if (!strikes(step.op) || fault_->kind == Fault::Kind::nan) return;
  ::raise(fault_->kind == Fault::Kind::kill ? SIGKILL : SIGSTOP);
}

void FaultDrill::before(const Call& call, const RankStep& step, Device& device) const {
  if (!strikes(step.op) || fault_->kind != Fault::Kind::nan) return;
  const auto* check = std::get_if<FiniteCheck>(&call);
  if (check == nullptr || check->ranges.empty()) return;
  const Place& at = check->ranges.front().at;
  // All bits set are not a number in every format; the widest has four bytes.
  std::memset(device.data(at.buffer) + at.offset, 0xff, sizeof(float));
}

}  // namespace moesim
