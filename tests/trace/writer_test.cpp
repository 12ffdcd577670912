// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/writer.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "sim/trace/trace_json.h"
#include "sim/trace/verify.h"
#include "tests/error_of.h"
#include "tests/trace/samples.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;
using Publish = TraceWriter::Publish;

std::vector<std::string> listing(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TraceInfo rich_info() { return {"rich", "toy \"x\"", 300, 2, {1, 3}, Phase::prefill, ""}; }

std::shared_ptr<const TraceStep> rich_step(std::int64_t number) {
  StepArrays arrays;
  arrays.number = number;
  arrays.ids = IdArray(300, {0, 299, 5, 6, 7, 8, 1, 2, 3, 4, 256, 255});
  arrays.sequence_lengths = {1, 2};
  arrays.source_ranks = {0, 70000, 1};
  arrays.weights = {.5F, .25F, 1, 0, .1F, .9F, .5F, .5F, .5F, .5F, .5F, .5F};
  return make_step(rich_info(), std::move(arrays));
}

TEST(Writer, WritesWhatOpenReads) {
  ScratchFolder scratch;
  auto info = rich_info();
  info.provenance = R"({"corpus": ["a", 1], "loss": 2.5})";
  auto writer = TraceWriter::create(scratch / "t", info, Publish::each_step);
  writer.append_step(*rich_step(3));
  writer.append_step(*rich_step(100000003));
  writer.finish();

  const auto trace = RoutingTrace::open(scratch / "t");
  EXPECT_EQ(trace.info().name, "rich");
  EXPECT_EQ(trace.info().model, "toy \"x\"");
  EXPECT_EQ(trace.info().experts, 300);
  EXPECT_EQ(trace.info().top_k, 2);
  EXPECT_EQ(trace.info().layers, (std::vector{1, 3}));
  EXPECT_EQ(trace.info().phase, Phase::prefill);
  EXPECT_THAT(trace.info().provenance, testing::HasSubstr("corpus"));
  ASSERT_EQ(trace.step_count(), 2);
  EXPECT_EQ(trace.step(1).number(), 100000003);
  const auto& step = trace.step(0);
  EXPECT_EQ(step.tokens(), 3);
  EXPECT_EQ(step.ids(0).width(), 2);
  EXPECT_EQ(step.ids(0).at(0, 1), 299);
  EXPECT_EQ(step.ids(1).at(2, 0), 256);
  EXPECT_THAT(step.sequence_lengths(), testing::ElementsAre(1, 2));
  EXPECT_EQ(step.source_rank(1), 70000);
  EXPECT_EQ(step.weight(0, 2, 0), .1F);
  EXPECT_EQ(trace.hash(), RoutingTrace(info, {rich_step(3), rich_step(100000003)}).hash());
}

TEST(Writer, DescribesATraceLineByLine) {
  auto info = rich_info();
  info.provenance = R"({"corpus": ["a"], "loss": 2.5})";
  EXPECT_EQ(trace_json_text(info), R"({
  "format": "moesim-trace",
  "version": 1,
  "name": "rich",
  "model": "toy \"x\"",
  "experts": 300,
  "top_k": 2,
  "layers": [1, 3],
  "phase": "prefill",
  "expert_ids": "logical",
  "provenance": {
    "corpus": [
      "a"
    ],
    "loss": 2.5
  }
}
)");
  EXPECT_EQ(layers_text({4}), "1 (model layers 4)");
  EXPECT_EQ(layers_text({4, 5}), "2 (model layers 4, 5)");
  EXPECT_EQ(layers_text({4, 5, 6}), "3 (model layers 4-6)");
  EXPECT_EQ(layers_text({4, 5, 7}), "3 (model layers 4, 5, 7)");
}

TEST(Writer, WhatItWroteIsVerifiedStepByStepAndLayerByLayer) {
  ScratchFolder scratch;
  auto writer = TraceWriter::create(scratch / "t", rich_info(), Publish::each_step);
  for (const std::int64_t step : {1, 2}) writer.append_step(*rich_step(step));
  writer.finish();
  std::vector<double> seen;
  EXPECT_TRUE(verify_trace(scratch / "t", [&](double share) { seen.push_back(share); }).empty());
  EXPECT_THAT(seen, testing::ElementsAre(0, 0.25, 0.5, 0.75));
}

TEST(Writer, WeightsThatFitAreHalves) {
  ScratchFolder scratch;
  const auto info = tiny_trace().info();
  StepArrays arrays;
  arrays.ids = IdArray(4, {0, 1, 2, 3});
  arrays.sequence_lengths = {2};
  arrays.weights = {.5F, 65504.0F, 0x1p-24F, 0};
  auto writer = TraceWriter::create(scratch / "t", info, Publish::each_step);
  writer.append_step(*make_step(info, arrays));
  EXPECT_THAT(read_bytes(scratch / "t/step-00000000/gate_weights.npy"), testing::HasSubstr("<f2"));
  const auto trace = RoutingTrace::open(scratch / "t");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(trace.step(0).weight(0, i / 2, i % 2), arrays.weights[static_cast<std::size_t>(i)]);
  }
}

TEST(Writer, NoTraceIsInsideAnother) {
  ScratchFolder scratch;
  auto writer = TraceWriter::create(scratch / "t", rich_info(), Publish::each_step);
  writer.append_step(*rich_step(0));
  const auto before = listing(scratch.path());
  fs::create_directory_symlink("t", scratch / "link");
  const std::string reason =
      "is inside the trace '" + scratch / "t', which other files would break";
  for (const char* inside : {"t/new", "t/new/", "t/step-00000000/new", "t/no/new", "link/new"}) {
    const std::string target = scratch / inside;
    EXPECT_THAT(error_of([&] { TraceWriter::create(target, rich_info(), Publish::at_end); }),
                testing::HasSubstr(reason))
        << inside;
    EXPECT_THAT(error_of([&] { TraceWriter::resume(target, "key"); }), testing::HasSubstr(reason));
  }
  fs::remove(scratch / "link");
  EXPECT_EQ(listing(scratch.path()), before);
  write_bytes(scratch / "timelines/trace.json", "{\"traceEvents\": []}");
  TraceWriter::create(scratch / "timelines/t", rich_info(), Publish::at_end).finish();
  EXPECT_TRUE(fs::exists(scratch / "timelines/t/trace.json")) << "that file is of another program";
}

TEST(Writer, InfiniteWeightsStay) {
  ScratchFolder scratch;
  const TraceInfo info{"t", "", 8, 2, {0}, Phase::training, ""};
  StepArrays arrays;
  arrays.ids = IdArray(8, {0, 1, 2, 3});
  arrays.sequence_lengths = {2};
  arrays.weights = {.5F, std::numeric_limits<float>::infinity(), 1, 0};
  auto writer = TraceWriter::create(scratch / "t", info, Publish::each_step);
  writer.append_step(*make_step(info, arrays));
  writer.finish();
  EXPECT_EQ(RoutingTrace::open(scratch / "t").step(0).weight(0, 0, 1), arrays.weights[1]);
}

TEST(Writer, EveryFinishedStepCanBeOpenedAtOnce) {
  ScratchFolder scratch;
  auto writer = TraceWriter::create(scratch / "t", rich_info(), Publish::each_step);
  writer.append_step(*rich_step(1));
  EXPECT_EQ(RoutingTrace::open(scratch / "t").step_count(), 1);
  fs::create_directories(scratch / "t/.step-00000002.tmp");  // a recorder that died
  write_bytes(scratch / "t/.step-00000002.tmp/ids.npy", "half");
  EXPECT_EQ(RoutingTrace::open(scratch / "t").step_count(), 1);
  writer.append_step(*rich_step(2));
  EXPECT_EQ(RoutingTrace::open(scratch / "t").step_count(), 2);
}

TEST(Writer, AtEndNothingRemainsOfAnInterruptedTrace) {
  ScratchFolder scratch;
  {
    auto writer = TraceWriter::create(scratch / "t", rich_info(), Publish::at_end);
    writer.append_step(*rich_step(1));
    EXPECT_FALSE(fs::exists(scratch / "t"));
  }
  EXPECT_THAT(listing(scratch.path()), testing::IsEmpty());
  auto writer = TraceWriter::create(scratch / "t", rich_info(), Publish::at_end);
  writer.append_step(*rich_step(1));
  writer.finish();
  EXPECT_THAT(
      listing(scratch.path()),
      testing::ElementsAre("t", "t/step-00000001", "t/step-00000001/gate_weights.npy",
                           "t/step-00000001/ids.npy", "t/step-00000001/sequence_lengths.npy",
                           "t/step-00000001/source_ranks.npy", "t/trace.json"));
}

TEST(Writer, RemovesWhatAKilledOneLeftAndNotWhatALiveOneWrites) {
  ScratchFolder scratch;
  const pid_t child = ::fork();
  if (child == 0) {
    auto writer = TraceWriter::create(scratch / "t", rich_info(), Publish::at_end);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(listing(scratch.path()), testing::Not(testing::IsEmpty()));
  fs::create_directory(scratch / ".other.tmp-0");  // of another trace
  auto live = TraceWriter::create(scratch / "t", rich_info(), Publish::at_end);
  auto second = TraceWriter::create(scratch / "t", rich_info(), Publish::at_end);
  live.append_step(*rich_step(3));
  second.abandon();
  live.finish();
  EXPECT_THAT(listing(scratch.path()),
              testing::ElementsAre(".other.tmp-0", "t", "t/step-00000003",
                                   "t/step-00000003/gate_weights.npy", "t/step-00000003/ids.npy",
                                   "t/step-00000003/sequence_lengths.npy",
                                   "t/step-00000003/source_ranks.npy", "t/trace.json"));
}

TEST(Writer, NeverOverwrites) {
  ScratchFolder scratch;
  fs::create_directories(scratch / "t");
  EXPECT_EQ(replace_all(
                error_of([&] { TraceWriter::create(scratch / "t", rich_info(), Publish::at_end); }),
                scratch.path() + "/", ""),
            "t: error: exists already; a trace is never overwritten\n"
            "hint: give another name or remove it first\n");
  auto writer = TraceWriter::create(scratch / "u", rich_info(), Publish::each_step);
  writer.append_step(*rich_step(5));
  EXPECT_EQ(error_of([&] { writer.append_step(*rich_step(5)); }),
            "error: step 5 cannot follow step 5\nhint: step numbers ascend\n");
}

TEST(Trace, HashSeesTheLastOfManyExperts) {
  const auto hash_with = [](int last) {
    StepArrays arrays;
    arrays.ids = IdArray(300, {0, 299, 5, 6, 7, last});
    arrays.sequence_lengths = {3};
    const TraceInfo info{"wide", "", 300, 2, {1}, Phase::prefill, ""};
    return RoutingTrace(info, {make_step(info, std::move(arrays))}).hash();
  };
  EXPECT_NE(hash_with(8), hash_with(264)) << "equal in their lower bytes";
  EXPECT_NE(hash_with(8), hash_with(9));
}

TEST(Trace, HashNamesItsContent) {
  const auto trace = tiny_trace();
  const auto changed = [&](auto change) {
    auto info = trace.info();
    StepArrays step;
    step.number = 7;
    step.ids = IdArray(4, {0, 1, 2, 3, 0, 2});
    step.sequence_lengths = {2, 1};
    change(info, step);
    return RoutingTrace(info, {make_step(info, std::move(step))}).hash();
  };
  EXPECT_EQ(changed([](auto&, auto&) {}), trace.hash());
  EXPECT_NE(changed([](auto&, auto& s) { s.ids.set(0, 3); }), trace.hash());
  EXPECT_NE(changed([](auto&, auto& s) { s.sequence_lengths = {1, 2}; }), trace.hash());
  EXPECT_NE(changed([](auto&, auto& s) { s.source_ranks = {0, 0, 1}; }), trace.hash());
  EXPECT_NE(changed([](auto&, auto& s) { s.number = 8; }), trace.hash());
  TraceInfo renamed = trace.info();
  renamed.name = "again";
  EXPECT_NE(RoutingTrace(renamed, {trace.shared_step(0)}).hash(), trace.hash()) << "of one step";
  const auto weighed = [&](std::size_t heavier) {
    return changed([&](auto&, auto& s) {
      s.weights.assign(6, 0.25F);
      s.weights[heavier] = 0.5F;
    });
  };
  EXPECT_NE(weighed(0), weighed(1));
  EXPECT_NE(weighed(4), weighed(5));
  EXPECT_NE(changed([](auto& i, auto&) { i.layers = {1}; }), trace.hash());
}

}  // namespace
}  // namespace moesim
