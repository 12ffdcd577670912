// SPDX-License-Identifier: Apache-2.0
// The kernels of one name over all GPUs.
#include <map>

#include "sim/report/explain.h"

namespace moesim {

KernelReport explain_kernel(const Plan& plan, const std::vector<OpId>& ops, const GpuModels& gpus) {
  KernelReport report;
  const OpKey& key = plan[ops[0]].key;
  report.name = plan[ops[0]].label;
  report.pass = key.pass;
  std::map<GpuId, Seconds> busy;
  for (const OpId id : ops) {
    const Group& group = plan[id].group;
    for (std::size_t m = 0; m < group.size(); ++m) {
      const Seconds time = gpus[group[m].index()]->time(plan[id].kernels()->of(m), key.type());
      busy[group[m]] += time;
      report.mean += time * (1.0 / plan.gpus);
    }
  }
  report.gpus = static_cast<int>(busy.size());
  report.max = Seconds(-1);
  for (const auto& [gpu, time] : busy) {
    if (time > report.max) report.max = time, report.slowest = gpu;
  }
  Seconds longest(-1);
  for (const OpId id : ops) {
    const Group& group = plan[id].group;
    if (!group.contains(report.slowest)) continue;
    const Kernel& kernel = plan[id].kernels()->of(group.member(report.slowest));
    report.flops += flops_of(kernel);
    report.bytes += memory_traffic_of(kernel);
    const GpuModel& gpu = *gpus[report.slowest.index()];
    if (const Seconds time = gpu.time(kernel, key.type()); time > longest) {
      longest = time;
      report.bound = gpu.bound(kernel, key.type());
    }
  }
  return report;
}

}  // namespace moesim
