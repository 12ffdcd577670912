// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/stack/stack_case.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

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

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* wanted = std::getenv(variable);
  return wanted == nullptr ? otherwise : std::strtoull(wanted, nullptr, 10);
}

bool is_idle(const Call& call) { return std::holds_alternative<Scratch>(call); }

}  // namespace

std::vector<std::uint64_t> orders_of_case(std::size_t cases, std::uint64_t otherwise) {
  const std::uint64_t orders = number_of("MOESIM_ORDERS", otherwise) / cases;
  std::vector<std::uint64_t> seeds(std::max<std::uint64_t>(orders, 1));
  std::iota(seeds.begin(), seeds.end(), number_of("MOESIM_ORDER", 1));
  return seeds;
}

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
