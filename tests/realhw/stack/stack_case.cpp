// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/stack/stack_case.h"

#include "realhw/core/gemm.h"
#include "realhw/program/compile.h"

namespace moesim {
namespace {

RealCaseOptions options_of(const std::string& policy, int nodes, int gpus) {
  RealCaseOptions o;
  o.policy = policy;
  o.nodes = nodes;
  o.gpus = gpus;
  return o;
}

bool is_idle(const Call& call) { return std::holds_alternative<Scratch>(call); }

}  // namespace

void drop_scratch(Plan& plan, const RealStep& step) {
  for (int rank = 0; rank < plan.gpus; ++rank) {
    for (const RankStep& of : compile(step, GpuId(rank)).steps) {
      if (std::ranges::none_of(of.before, is_idle)) continue;
      plan.ops[of.op.index()].work = Kernels(Kernel(HostWork{0}));
    }
  }
}

StackCase::StackCase(const std::string& policy, int nodes, int gpus)
    : real(options_of(policy, nodes, gpus)) {
  set_gemm_threads(1);
  options.timeout = Seconds(0.2);
  drop_scratch(real.planned->plan, *real.real);
}

StackCase::Result StackCase::run(std::uint64_t seed) {
  Result result;
  result.end = run_ranks(real.topology.gpu_count(), seed, [&](Job& job) {
    const auto backend = make_nccl_backend(job, options);
    const MeasuredStep measured =
        measure_step(job, *backend, *real.real, {.warmup = 1, .repeats = 1});
    if (job.rank() == 0) result.compared = measured.compared;
  });
  return result;
}

}  // namespace moesim
