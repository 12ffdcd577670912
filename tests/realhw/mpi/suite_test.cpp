// SPDX-License-Identifier: Apache-2.0
// The shared suite over MPI: mpirun -n 2 mpi-suite. All ranks run the same tests on what rank 0
// gathered; rank 0 reports.
#include <cstring>

#include "realhw/job/timeline_gatherer.h"
#include "realhw/mpi/mpi_backend.h"
#include "realhw/mpi/mpi_job.h"
#include "sim/plan/check.h"
#include "tests/engine/backend_suite.h"

namespace moesim::test {
namespace {

MpiJob* job = nullptr;

std::string bytes_of(const Timeline& timeline) {
  std::vector<double> values = {timeline.makespan.value};
  for (std::size_t op = 0; op < timeline.ops.size(); ++op) {
    for (const Interval& i : timeline.ops[op])
      values.insert(values.end(), {i.start.value, i.end.value});
  }
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

Timeline timeline_of(const std::string& bytes, const Plan& plan) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  Timeline timeline;
  auto at = values.begin();
  timeline.makespan = Seconds(*at++);
  for (const Op& op : plan.ops) {
    std::vector<Interval> intervals;
    for (std::size_t i = 0; i < op.group.size(); ++i, at += 2) {
      intervals.push_back({Seconds(at[0]), Seconds(at[1])});
    }
    timeline.ops.add_row(intervals);
  }
  return timeline;
}

MpiOptions options_for(MpiTransport transport, bool together) {
  MpiOptions options;
  options.transport = transport;
  options.together = together;
  return options;
}

/// Plans of as many GPUs as there are ranks; every rank gets the whole timeline.
class OverMpi : public Backend {
 public:
  explicit OverMpi(const MpiOptions& options) : backend_(make_mpi_backend(*job, options)) {}

  Timeline run(const Plan& plan) override {
    const RealStep step(plan, ExpertShape(8, 8, false), {});
    const auto runner = backend_->runner(step);
    runner->run(true);
    const TimelineGatherer clocks(*job);
    const Timeline gathered = clocks.gather(plan, runner->run(false));
    return timeline_of(job->broadcast(job->rank() == 0 ? bytes_of(gathered) : ""), plan);
  }

 private:
  std::unique_ptr<HardwareBackend> backend_;
};

BackendCase over_mpi(const std::string& name, const MpiOptions& options) {
  return {.name = name, .make = [options](const Topology&, const GpuModels&) {
            return std::make_unique<OverMpi>(options);
          }};
}

const auto cases =
    testing::Values(over_mpi("p2p", options_for(MpiTransport::p2p, false)),
                    over_mpi("alltoallv", options_for(MpiTransport::alltoallv, false)),
                    over_mpi("p2p_together", options_for(MpiTransport::p2p, true)));
const auto name = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Mpi, BackendOrder, cases, name);

}  // namespace
}  // namespace moesim::test

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendTimes);

int main(int argc, char** argv) {
  moesim::MpiJob job(argc, argv);
  moesim::test::job = &job;
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (job.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  return RUN_ALL_TESTS();
}
