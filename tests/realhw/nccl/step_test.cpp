// SPDX-License-Identifier: Apache-2.0
// Plans over NCCL without a GPU: all that stands between a program and the device and library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "realhw/measure/measure.h"
#include "tests/realhw/nccl/nccl_case.h"

namespace moesim {
namespace {

using testing::Each;
using testing::SizeIs;
using Fault = FakeNccl::Fault;

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
  EXPECT_EQ(c->log.replays, 3 * c->ranks());  // the first one is not timed
  EXPECT_EQ(c->log.waits_for_nothing, 0);
  EXPECT_EQ(c->nccl.live(), 0);
  EXPECT_TRUE(c->nccl.aborted().empty());
}

std::string identifier(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, NcclPolicy, testing::ValuesIn(executed_policies()), identifier);

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
  c.log.captures_refused = c.ranks();
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

/// NCCL wants a group captured on all of its ranks or on none.
TEST(NcclStep, NoRankReplaysWhatOneCannotCapture) {
  NcclCase c(small());
  c.log.captures_refused = 1;
  std::atomic<std::int64_t> wrong = 0;
  const auto thrown = c.run([&](NcclStep& step, Job&) {
    step.run(true);
    step.run(false);
    EXPECT_FALSE(step.replays());
    wrong += step.compare({}).wrong();
  });
  EXPECT_THAT(thrown, Each(""));
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(c.log.captures, c.ranks() - 1);
  EXPECT_EQ(c.log.replays, 0);
}

/// Wrong elements that measuring finds when every replay leaves out a call that makes numbers.
std::int64_t wrong_without_call(int call, int& calls) {
  NcclCase c(small("alltoall"));
  c.log.dropped_call = call;
  std::atomic<std::int64_t> wrong = 0;
  const auto thrown = as_ranks(c.ranks(), [&](Job& job) {
    const auto backend = make_nccl_backend(
        job, {c.nccl.api(), [&] { return std::make_unique<FakeGpu>(c.log); }, "fakes"}, c.options_);
    const MeasuredStep measured =
        measure_step(job, *backend, *c.real.real, {.warmup = 0, .repeats = 1});
    if (job.rank() == 0) wrong = measured.compared.wrong();
  });
  EXPECT_THAT(thrown, Each(""));
  EXPECT_EQ(c.log.replays, 3 * c.ranks());
  calls = c.log.kept_calls;
  return wrong;
}

TEST(NcclStep, MeasuringFindsAReplayThatLeavesOutACall) {
  int calls = 0;
  EXPECT_EQ(wrong_without_call(-1, calls), 0);
  EXPECT_GT(calls, 10) << "the case is too simple";
  for (int call = 0; call < calls; ++call) {
    EXPECT_GT(wrong_without_call(call, calls), 0) << "call " << call;
  }
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

}  // namespace
}  // namespace moesim
