// SPDX-License-Identifier: Apache-2.0
// Folders of traces with one mistake each, and requests as they come.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "sim/trace/npy.h"
#include "sim/trace/serve.h"
#include "sim/trace/statistics.h"
#include "sim/trace/synth/choice_model.h"
#include "sim/trace/trace_json.h"
#include "sim/trace/verify.h"
#include "sim/trace/writer.h"
#include "tests/error_of.h"
#include "tests/trace/samples.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two tokens of top-2 in sequences of one, with weights and ranks.
RoutingTrace small_trace(int experts, Phase phase = Phase::decode) {
  const TraceInfo info{"small", "toy", experts, 2, {0}, phase, ""};
  StepArrays arrays;
  arrays.number = 3;
  arrays.ids = IdArray(experts, {0, 1, 2, 3});
  arrays.sequence_lengths = {1, 1};
  arrays.weights = {0.5F, 0.5F, 1, 0};
  arrays.source_ranks = {0, 1};
  return {info, {make_step(info, std::move(arrays))}};
}

/// What is wrong with its folder once a file of the step has this content.
std::string problems_of(int experts, const std::string& file, const std::string& content) {
  const ScratchFolder scratch;
  const RoutingTrace trace = small_trace(experts);
  auto writer = TraceWriter::create(scratch / "t", trace.info(), TraceWriter::Publish::at_end);
  writer.append_step(trace.step(0));
  writer.finish();
  if (!file.empty()) write_bytes(scratch / ("t/" + file), content);
  std::string text;
  for (const Diagnostic& problem : verify_trace(scratch / "t")) {
    EXPECT_EQ(problem.column > 0, problem.line > 0);
    text += problem.message + (problem.hint.empty() ? "" : " | " + problem.hint) + "\n";
  }
  return text;
}

template <class T>
std::string npy_of(NpyType type, const std::vector<std::int64_t>& shape,
                   const std::vector<T>& values) {
  return npy_header(type, shape) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

const std::string step_folder = "step-00000003/";

TEST(StepFolders, HaveArraysOfTheirTypesAndShapes) {
  EXPECT_EQ(problems_of(256, "", ""), "");
  const auto ids = [](int experts, const std::string& content) {
    return problems_of(experts, step_folder + "ids.npy", content);
  };
  const std::vector<std::int64_t> shape = {1, 2, 2};
  const std::string wide = npy_of<std::int64_t>({'i', 8}, shape, {0, 1, 2, 3});
  EXPECT_EQ(ids(256, wide), "holds int64, not uint8 or uint16 | save it with .astype(np.uint8)\n");
  EXPECT_EQ(ids(257, wide), "holds int64, not uint8 or uint16 | save it with .astype(np.uint16)\n");
  const std::string bytes = npy_of<std::uint8_t>({'u', 1}, shape, {0, 1, 2, 3});
  EXPECT_EQ(ids(256, bytes), "");
  EXPECT_EQ(ids(257, bytes),
            "uint8 cannot hold the ids of 257 experts | save it with .astype(np.uint16)\n");
  const std::string order = " as trace.json says | the order is [layer][token][choice]\n";
  for (const std::vector<std::int64_t>& other :
       {std::vector<std::int64_t>{4}, {2, 1, 2}, {1, 4, 1}}) {
    EXPECT_THAT(ids(256, npy_of<std::uint8_t>({'u', 1}, other, {0, 1, 2, 3})),
                HasSubstr(", not (1, tokens, 2)" + order));
  }
  EXPECT_THAT(ids(256, npy_of<std::uint8_t>({'u', 1}, {1, 0, 2}, {})),
              HasSubstr("has no tokens\n"));
}

TEST(StepFolders, HaveLengthsThatAddUp) {
  const auto lengths = [](const std::vector<std::int32_t>& values,
                          std::vector<std::int64_t> shape = {2}) {
    return problems_of(8, step_folder + "sequence_lengths.npy",
                       npy_of<std::int32_t>({'i', 4}, shape, values));
  };
  EXPECT_EQ(lengths({1, 1}), "");
  EXPECT_EQ(lengths({1, 2}), "the sequences add up to 3 tokens but ids.npy has 2\n");
  EXPECT_EQ(lengths({2, 0}), "sequence 1 has length 0\n");
  EXPECT_EQ(lengths({3, -1}), "sequence 1 has length -1\n");
  EXPECT_EQ(lengths({1, 1}, {1, 2}), "has shape (1, 2), not (sequences,)\n");
}

TEST(StepFolders, HaveNoOtherFiles) {
  EXPECT_EQ(problems_of(8, step_folder + "id.npy", ""),
            "is not part of a step | did you mean 'ids.npy'?\n");
  EXPECT_EQ(problems_of(8, step_folder + ".hidden", ""), "");
  EXPECT_EQ(problems_of(8, "step-4/ids.npy", ""),
            "is not a step folder: step-<number, 8 digits> | a name that starts with a dot is "
            "ignored\n");
  EXPECT_EQ(problems_of(8, "notes.txt", ""), "");
  EXPECT_THAT(problems_of(8, ".step-00000004.tmp/ids.npy", ""),
              HasSubstr("is a step whose recording was interrupted; it is ignored"));
}

TEST(StepFolders, AreFoldersThatAreThere) {
  EXPECT_EQ(problems_of(8, "step-00000004", "x"),
            "is not a folder | a name that starts with a dot is ignored\n");
  const ScratchFolder scratch;
  const RoutingTrace trace = small_trace(8);
  auto writer = TraceWriter::create(scratch / "t", trace.info(), TraceWriter::Publish::at_end);
  writer.append_step(trace.step(0));
  writer.finish();
  std::filesystem::create_symlink("/no/such/step", scratch / "t/step-00000004");
  const auto problems = verify_trace(scratch / "t");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "is a link to a step that is not there");
  EXPECT_THAT(error_of([&] { RoutingTrace::open(scratch / "t"); }),
              HasSubstr("step-00000004: error: is a link to a step that is not there"));
}

TEST(StepFolders, HaveWeightsAndRanksThatCanBe) {
  const auto weights = [](const std::vector<float>& values) {
    return problems_of(8, step_folder + "gate_weights.npy",
                       npy_of<float>({'f', 4}, {1, 2, 2}, values));
  };
  EXPECT_EQ(weights({0, 1, 2, 3}), "");
  EXPECT_EQ(weights({0, 1, -1, 3}),
            "layer 0, token 1: weight -1 is not a finite number from 0 up (1 such weight in this "
            "layer)\n");
  EXPECT_EQ(weights({0, -2, -1, 3}),
            "layer 0, token 0: weight -2 is not a finite number from 0 up (2 such weights in this "
            "layer)\n");
  const auto ranks = [](const std::vector<std::int32_t>& values) {
    return problems_of(8, step_folder + "source_ranks.npy",
                       npy_of<std::int32_t>({'i', 4}, {2}, values));
  };
  EXPECT_EQ(ranks({0, 5}), "");
  EXPECT_THAT(ranks({0, -1}), HasSubstr("token 1: rank -1 is not from 0 to "));
}

TEST(StepFolders, HaveRanksOfTwoBytesIfTheyFit) {
  for (const auto& [rank, type] : {std::pair(65535, "<u2"), {65536, "<i4"}}) {
    const ScratchFolder scratch;
    const TraceInfo info = small_trace(8).info();
    StepArrays arrays;
    arrays.ids = IdArray(8, {0, 1, 2, 3});
    arrays.sequence_lengths = {2};
    arrays.source_ranks = {0, rank};
    auto writer = TraceWriter::create(scratch / "t", info, TraceWriter::Publish::at_end);
    writer.append_step(*make_step(info, std::move(arrays)));
    writer.finish();
    EXPECT_THAT(read_bytes(scratch / "t/step-00000000/source_ranks.npy"), HasSubstr(type));
    EXPECT_EQ(RoutingTrace::open(scratch / "t").step(0).source_rank(1), rank);
  }
}

TEST(TraceFolders, HaveAscendingLayers) {
  const auto layers = [](const std::string& list) {
    const std::string text = trace_json_text(small_trace(8).info());
    return problems_of(8, "trace.json", replace_all(text, "[0]", list));
  };
  EXPECT_EQ(layers("[7]"), "");
  for (const char* const list : {"[1, 1]", "[2, 1]"}) {
    EXPECT_THAT(layers(list), HasSubstr("layers must ascend")) << list;
  }
  EXPECT_THAT(layers("[]"), HasSubstr("a trace has at least one layer"));
}

TEST(PairsOfExperts, AreThoseThatTwentyTokensWouldHaveByChance) {
  // 40 x 40 of 80 tokens are 20, 38 x 38 fewer.
  const TraceInfo info{"pairs", "toy", 6, 2, {0}, Phase::decode, ""};
  StepArrays arrays;
  std::vector<int> ids;
  for (int t = 0; t < 80; ++t) {
    const int first = t < 40 ? 0 : t < 78 ? 2 : 4;
    ids.insert(ids.end(), {first, first + 1});
  }
  arrays.ids = IdArray(6, ids);
  arrays.sequence_lengths = {80};
  const auto pairs =
      measure(RoutingTrace(info, {make_step(info, std::move(arrays))})).strongest_pairs;
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].a, 0);
  EXPECT_EQ(pairs[0].lift, 2);
}

// Experts that hardly ever win a draw are drawn among themselves once the others are taken.
TEST(ChoicesOfRareExperts, AreByTheirWeights) {
  ChoiceModel model;
  model.popularity = {1e-12, 3e-12, 1};
  model.top_k = 2;
  ChoiceSampler sampler(model);
  Random random(4);
  int first = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<int> row;
    sampler.next(row, random);
    ASSERT_EQ(row.size(), 2U);
    EXPECT_EQ(row[0], 2);
    first += row[1] == 0 ? 1 : 0;
  }
  EXPECT_NEAR(first, 1000, 110);  // 4 standard errors
}

TEST(PagesOfStatistics, SayWhetherWeightsAreRecorded) {
  const RoutingTrace trace = small_trace(4);
  EXPECT_THAT(statistics_text(trace, measure(trace)),
              HasSubstr("\ngate weights            recorded\n"));
}

TEST(ArrivalsOfRequests, AreSumsOfExponentialWaits) {
  Random random(9);
  const double first = -portable_log(1 - random.uniform()) / 0.25;
  const double second = first - portable_log(1 - random.uniform()) / 0.25;
  EXPECT_THAT(poisson_arrivals(2, 0.25, 9), ElementsAre(first, second));
  EXPECT_THAT(poisson_arrivals(0, 0.25, 9), testing::IsEmpty());
  EXPECT_THAT(parse_arrivals("0\n7", "a"), ElementsAre(0, 7));
  EXPECT_THAT(parse_arrivals("", "a"), testing::IsEmpty());
  for (const char* const wrong : {"x", "1x", "1\n\n2", "nan", "1 2", "-0.5"}) {
    EXPECT_THAT(error_of([&] { parse_arrivals(wrong, "a"); }),
                HasSubstr("is not an arrival in decode steps"))
        << wrong;
  }
}

TEST(ServersOfRequests, RefuseWhatTheyCannotServe) {
  const auto log = trace_of_sequences({{2, 1}});
  const auto refused = [&](const ServeOptions& options, Phase phase = Phase::mixed) {
    TraceInfo info = log.info();
    info.phase = phase;
    const std::string text =
        error_of([&] { DecodeServer(RoutingTrace(info, {log.shared_step(0)}), options); });
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({}, Phase::synthetic), "");
  EXPECT_EQ(refused({}, Phase::prefill), "error: trace 'sequences' is not of decode");
  EXPECT_EQ(refused({.batch = 1048577}), "error: a batch of 1048577; it is from 1 to 1048576");
  EXPECT_EQ(refused({.batch = 2, .least = 3}),
            "error: steps with 3 requests or more: a batch has 2 at most");
  EXPECT_EQ(refused({.batch = 2, .least = -1}),
            "error: steps with -1 requests or more: a batch has 2 at most");
  EXPECT_EQ(refused({.batch = 2, .least = 2}), "");
  TraceInfo counted = log.info();
  counted.phase = Phase::decode, counted.counts_alone = true;
  EXPECT_THAT(error_of([&] { DecodeServer(RoutingTrace(counted, {log.shared_step(0)}), {}); }),
              HasSubstr("has only counts, and no requests"));
}

TEST(ServersOfRequests, SayWhatWasServed) {
  const RoutingTrace log = trace_of_sequences({{2, 1}});
  TraceInfo info = log.info();
  info.phase = Phase::mixed;
  const RoutingTrace mixed(info, {log.shared_step(0)});
  const DecodeServer server(mixed, {.batch = 2, .arrivals = {1, 4.5}, .name = "served"});
  EXPECT_EQ(server.info().name, "served");
  EXPECT_EQ(server.info().phase, Phase::decode);
  EXPECT_EQ(server.info().provenance,
            fmt::format(R"({{"served_from":{{"name":"sequences","hash":"{}","batch":2,)"
                        R"("last_arrival":4.5}},"provenance":{{}}}})",
                        mixed.hash()));
  EXPECT_EQ(DecodeServer(mixed, {}).info().name, "sequences");
}

}  // namespace
}  // namespace moesim
