// SPDX-License-Identifier: Apache-2.0
// Plans over NCCL without a GPU: all that stands between a program and the device and library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "realhw/core/gemm.h"
#include "realhw/nccl/nccl_step.h"
#include "tests/realhw/nccl/fake_gpu.h"
#include "tests/realhw/nccl/fake_nccl.h"
#include "tests/realhw/nccl/thread_job.h"
#include "tests/realhw/real_case.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;
using Fault = FakeNccl::Fault;

/// A case on fakes, whose ranks do what the test says.
class NcclCase {
 public:
  explicit NcclCase(const RealCaseOptions& options, double timeout = 60) : real(options) {
    set_gemm_threads(1);
    options_.timeout = Seconds(timeout);
    options_.compile.matrices = options.matrices;
  }

  int ranks() const { return real.topology.gpu_count(); }
  template <class Body>  // body(rank's runner, its job)
  std::vector<std::string> run(Body body) {
    return as_ranks(ranks(), [&](Job& job) {
      const auto backend = make_nccl_backend(
          job, {nccl.api(), [this] { return std::make_unique<FakeGpu>(log); }, "fakes"}, options_);
      const auto runner = backend->runner(*real.real);
      body(dynamic_cast<NcclStep&>(*runner), job);
    });
  }

  RealCase real;
  FakeNccl nccl;
  FakeGpu::Log log;
  NcclOptions options_;
};

RealCaseOptions small(const std::string& policy = "hiermoe-hd2") {
  RealCaseOptions o;
  o.policy = policy;
  o.nodes = o.gpus = 2;
  return o;
}

class NcclPolicy : public testing::TestWithParam<std::string> {};

TEST_P(NcclPolicy, ComputesWhatTheRoutingSays) {
  std::unique_ptr<NcclCase> c;
  for (const auto& [nodes, gpus] : {std::pair{2, 2}, {1, 4}, {2, 4}, {4, 8}}) {
    RealCaseOptions o = small(GetParam());
    o.nodes = nodes;
    o.gpus = gpus;
    o.activations = DataType::bf16;
    o.layers = {0, 2};
    try {
      c = std::make_unique<NcclCase>(o);
      break;
    } catch (const Error&) {  // does not suit the policy
    }
  }
  ASSERT_TRUE(c);
  std::mutex mutex;
  Comparison sum;
  const auto thrown = c->run([&](NcclStep& step, Job&) {
    const auto compare = [&] {
      const Comparison compared = step.compare({});
      const std::lock_guard lock(mutex);
      sum += compared;
    };
    step.run(true);
    compare();
    step.run(false);
    step.run(false);
    compare();
  });
  EXPECT_THAT(thrown, Each(""));
  EXPECT_GT(sum.outputs, 0);
  EXPECT_EQ(sum.wrong(), 0);
  EXPECT_EQ(c->log.captures, c->ranks());
  EXPECT_EQ(c->log.replays, 2 * c->ranks());
  EXPECT_EQ(c->log.waits_for_nothing, 0);
  EXPECT_EQ(c->nccl.live(), 0);
  EXPECT_TRUE(c->nccl.aborted().empty());
}

std::string identifier(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, NcclPolicy, testing::ValuesIn(data_names("models/system")),
                         identifier);

TEST(NcclStep, SendsEveryExchangeAsOneGroupOfItsStream) {
  NcclCase c(small("laer"));
  std::vector<RankProgram> programs(static_cast<std::size_t>(c.ranks()));
  const auto thrown = c.run([&](NcclStep& step, Job& job) {
    step.run(true);
    programs[static_cast<std::size_t>(job.rank())] = step.program();
  });
  EXPECT_THAT(thrown, Each(""));
  std::set<Stream> streams;
  for (const Op& op : c.real.planned->plan.ops) {
    if (op.exchange() != nullptr) streams.insert(op.stream);
  }
  EXPECT_THAT(streams, SizeIs(testing::Ge(2u))) << "the case is too simple";
  EXPECT_EQ(c.nccl.made(), c.ranks() * static_cast<int>(streams.size()));
  for (const RankProgram& program : programs) {
    int communicator = 0;
    for (const Stream stream : streams) {
      std::vector<FakeNccl::Group> groups = c.nccl.groups();
      std::erase_if(groups, [&](const FakeNccl::Group& g) {
        return g.rank != program.rank.value || g.communicator != communicator;
      });
      std::size_t at = 0;
      for (const RankStep& step : program.steps) {
        if (step.stream != stream || (step.sends.empty() && step.receives.empty())) continue;
        const auto as_given = [](const std::vector<Message>& messages) {
          std::vector<std::pair<int, std::size_t>> given;
          for (const Message& m : messages) given.emplace_back(m.peer.value, m.bytes);
          return given;
        };
        ASSERT_LT(at, groups.size());
        EXPECT_EQ(groups[at].sends, as_given(step.sends));
        EXPECT_EQ(groups[at++].receives, as_given(step.receives));
      }
      EXPECT_EQ(at, groups.size());
      ++communicator;
    }
  }
}

TEST(NcclStep, StampsOpsInTheOrderOfStreamsAndWaits) {
  NcclCase c(small("laer"));
  const auto thrown = c.run([&](NcclStep& step, Job&) {
    for (const bool verify : {true, false, false}) {
      const std::vector<Stamp> stamps = step.run(verify);
      std::array<Clock::time_point, stream_count> last{};
      for (const RankStep& s : step.program().steps) {
        const Stamp stamp = stamps[s.op.index()];
        EXPECT_LE(stamp.start, stamp.end);
        EXPECT_GE(stamp.start, last[static_cast<std::size_t>(s.stream)]);
        last[static_cast<std::size_t>(s.stream)] = stamp.end;
        for (const OpId op : s.waits) EXPECT_GE(stamp.start, stamps[op.index()].end);
      }
    }
  });
  EXPECT_THAT(thrown, Each(""));
  EXPECT_GT(c.log.waits, 0);
}

TEST(NcclStep, ComputesWithBfloat16Matrices) {
  RealCaseOptions o = small("hybridep");
  o.activations = DataType::bf16;
  o.matrices = RowFormat::bfloat16;
  NcclCase c(o);
  std::atomic<std::int64_t> wrong = 0, outputs = 0;
  const auto thrown = c.run([&](NcclStep& step, Job&) {
    step.run(true);
    const Comparison compared = step.compare({});
    wrong += compared.wrong();
    outputs += compared.outputs;
    EXPECT_TRUE(
        std::any_of(step.program().buffers.begin(), step.program().buffers.end(),
                    [](const Buffer& buffer) { return buffer.format == RowFormat::bfloat16; }));
  });
  EXPECT_THAT(thrown, Each(""));
  EXPECT_GT(outputs, 0);
  EXPECT_EQ(wrong, 0);
}

TEST(NcclStep, RunsUncapturedWhereNoGraphIsMade) {
  NcclCase c(small());
  c.log.refuse_capture = true;
  std::atomic<std::int64_t> wrong = 0;
  const auto thrown = c.run([&](NcclStep& step, Job&) {
    step.run(true);
    step.run(false);
    step.run(false);
    EXPECT_FALSE(step.replays());
    wrong += step.compare({}).wrong();
  });
  EXPECT_THAT(thrown, Each(""));
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(c.log.replays, 0);
}

TEST(NcclStep, CapturesNothingWhenToldSo) {
  NcclCase c(small());
  c.options_.graphs = false;
  const auto thrown = c.run([&](NcclStep& step, Job&) {
    step.run(true);
    step.run(false);
  });
  EXPECT_THAT(thrown, Each(""));
  EXPECT_EQ(c.log.captures, 0);
}

TEST(NcclStep, ChecksInVerifiedRunsAlone) {
  NcclCase c(small("laer"));
  std::atomic<int> after_first = 0;
  const auto thrown = c.run([&](NcclStep& step, Job& job) {
    step.run(true);
    job.barrier();
    after_first = c.log.checks.load();
    job.barrier();
    step.run(false);
    step.run(false);
  });
  EXPECT_THAT(thrown, Each(""));
  EXPECT_GT(after_first, 0);
  EXPECT_EQ(c.log.checks, after_first);
}

TEST(NcclStep, FindsABitThatChangedOnTheWay) {
  NcclCase c(small("alltoall"));
  c.nccl.plan(Fault::flips, 1);
  std::atomic<std::int64_t> wrong = 0;
  const auto thrown = c.run([&](NcclStep& step, Job& job) {
    try {
      step.run(true);
    } catch (const std::runtime_error&) {  // the bit made a number that is not finite
      ++wrong;
    }
    job.barrier();
    wrong += step.compare({}).wrong();
  });
  EXPECT_GT(wrong, 0);
}

/// What is thrown on each rank when rank 1 meets the fault.
std::vector<std::string> thrown_under(NcclCase& c, Fault fault, int group) {
  c.nccl.plan(fault, 1, group);
  return c.run([](NcclStep& step, Job&) { step.run(true); });
}

void expect_all_aborted(NcclCase& c) {
  EXPECT_THAT(c.nccl.aborted(), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(c.nccl.live(), 0);
  EXPECT_EQ(c.log.busy_when_freed, 0);
}

/// A full queue of CUDA would hold the host, which could not tell then that nothing moves.
TEST(NcclFailure, TheHostGoesNoMoreThan64OpsAhead) {
  RealCaseOptions o = small("laer");
  o.layers = {0, 1, 2, 3};
  NcclCase c(o, 1.0);
  c.nccl.plan(Fault::never_ends, 1);
  std::atomic<std::size_t> steps = 0;
  c.run([&](NcclStep& step, Job&) {
    steps = step.program().steps.size();
    step.run(true);
  });
  EXPECT_GT(steps, 100u) << "the case is too simple";
  EXPECT_LE(c.log.most_waiting, 2 * 65);
  expect_all_aborted(c);
}

TEST(NcclFailure, AGroupThatNeverEndsEndsAllRanks) {
  for (const int group : {0, 2}) {
    NcclCase c(small("alltoall"), 1.0);
    const auto thrown = thrown_under(c, Fault::never_ends, group);
    for (int rank = 0; rank < c.ranks(); ++rank) {
      EXPECT_THAT(thrown[static_cast<std::size_t>(rank)],
                  AllOf(HasSubstr(fmt::format("rank {}, op ", rank)),
                        HasSubstr("nothing has moved for 1 s")));
    }
    EXPECT_THAT(thrown[1],
                HasSubstr(group == 0 ? "'dispatch-alltoall'" : "'dispatch-alltoall-grad'"));
    expect_all_aborted(c);
  }
}

TEST(NcclFailure, AGroupThatNeverStartsIsNamed) {
  NcclCase c(small("alltoall"), 1.0);
  const auto thrown = thrown_under(c, Fault::never_starts, 0);
  EXPECT_THAT(thrown[1], AllOf(HasSubstr("rank 1, op "), HasSubstr("'dispatch-alltoall'"),
                               HasSubstr("starting the messages has not ended for 1 s")));
  EXPECT_THAT(thrown, Each(HasSubstr("rank ")));
  expect_all_aborted(c);
}

TEST(NcclFailure, AnErrorInTheBackgroundIsToldWithItsOp) {
  NcclCase c(small("alltoall"), 2.0);
  const auto thrown = thrown_under(c, Fault::fails, 1);
  EXPECT_THAT(thrown[1], AllOf(HasSubstr("rank 1, op "), HasSubstr("'combine-alltoall'"),
                               HasSubstr("unhandled system error (a cable was pulled)")));
  EXPECT_THAT(thrown, Each(HasSubstr("rank ")));
  expect_all_aborted(c);
}

TEST(NcclFailure, WhatAGpuSaysIsToldWithRankAndOp) {
  NcclCase c(small("alltoall"), 1.0);
  c.log.calls_until_broken = 12;  // fewer than a rank's step has: nobody is through by then
  const auto thrown = c.run([](NcclStep& step, Job&) { step.run(true); });
  EXPECT_THAT(thrown, testing::Contains(testing::ContainsRegex(
                          "^rank [0-9], op [0-9]+ '.*' of layer 1: an illegal memory access$")));
  EXPECT_THAT(thrown, Each(HasSubstr("rank ")));
  expect_all_aborted(c);
}

TEST(NcclFailure, AMessageOfAnotherSizeIsAnError) {
  NcclCase c(small("alltoall"), 2.0);
  const auto thrown = thrown_under(c, Fault::cuts, 0);
  EXPECT_THAT(thrown, testing::Contains(HasSubstr("invalid usage")));
}

TEST(NcclFailure, ARankThatNeverJoinsEndsAllRanks) {
  NcclCase c(small("alltoall"), 0.5);
  const auto thrown = thrown_under(c, Fault::never_joins, 0);
  EXPECT_THAT(thrown, Each(HasSubstr("joining the communicator has not ended for 0.5 s")));
  expect_all_aborted(c);
}

}  // namespace
}  // namespace moesim
