// SPDX-License-Identifier: Apache-2.0
// What policies say of their schedules, exchanges and transports, and what is wrong with it; parts
// of a serving batch.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "sim/base/error.h"
#include "sim/planner/iteration/serving_batches.h"
#include "sim/planner/layer/chunk_count.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string policy_of(const std::string& dispatch, const std::string& schedule) {
  return "name: p\nsource: s\nrouting: identity\nplacement: contiguous\ndispatch: " + dispatch +
         "\nschedule: " + schedule + "\n";
}

Chunking chunking_of(const std::string& keys) {
  const SystemSpec system =
      parse_system(policy_of("alltoall", "{kind: sequential" + keys + "}"), "p");
  const Topology topology = test::h100_nodes(1);
  const MoeModel model = test::tiny();
  return system.schedule.make({topology, model})->chunking();
}

TEST(PolicyTexts, SayHowLayersAreCut) {
  const Chunking whole = chunking_of("");
  EXPECT_EQ(whole.count, 1);
  EXPECT_FALSE(whole.streamed || whole.fills_tiles);
  EXPECT_EQ(chunking_of(", chunks: auto").count, 0);
  const Chunking four = chunking_of(", chunks: 4");
  EXPECT_EQ(four.count, 4);
  EXPECT_EQ(four.by, ChunkBy::tokens);
  EXPECT_FALSE(four.streamed);
  const Chunking partners = chunking_of(", chunks: 2, chunk: partners, streamed: true");
  EXPECT_EQ(partners.by, ChunkBy::partners);
  EXPECT_TRUE(partners.streamed);
  const Chunking tiles = chunking_of(", chunk: tiles");
  EXPECT_EQ(tiles.count, 32);
  EXPECT_EQ(tiles.by, ChunkBy::tiles);
  EXPECT_TRUE(tiles.streamed);
  EXPECT_THAT(tiles.kernel.rows, ElementsAre(128));
  EXPECT_EQ(tiles.kernel.columns, 128);
  EXPECT_THAT(tiles.kernel.types, IsEmpty());
  EXPECT_EQ(chunking_of(", chunk: tiles, chunks: 7").count, 7);
  const Chunking filled = chunking_of(", tile: 64, weights: fp8, products: bf16");
  EXPECT_EQ(filled.count, 1);
  EXPECT_TRUE(filled.fills_tiles);
  EXPECT_THAT(filled.kernel.rows, ElementsAre(64));
  EXPECT_EQ(filled.kernel.weights, DataType::fp8);
  EXPECT_EQ(filled.kernel.products, DataType::bf16);
  const Chunking all = chunking_of(
      ", chunk: tiles, tile: [16, 64], tile_columns: 256, types: [fp8, fp4], dies: [gh100]");
  EXPECT_THAT(all.kernel.rows, ElementsAre(16, 64));
  EXPECT_EQ(all.kernel.columns, 256);
  EXPECT_THAT(all.kernel.types, ElementsAre(DataType::fp8, DataType::fp4));
  EXPECT_THAT(all.kernel.dies, ElementsAre("gh100"));
}

TEST(PolicyTexts, SayWhatHasNoEffect) {
  const auto said = [](const std::string& keys) {
    try {
      chunking_of(keys);
    } catch (const Error& e) {
      std::string text;
      for (const Diagnostic& d : e.diagnostics()) text += d.message + "\n";
      return text;
    }
    return std::string();
  };
  EXPECT_EQ(said(", chunk: partners"), "'schedule.chunk' has no effect: there is one chunk\n");
  EXPECT_EQ(said(", streamed: true, chunks: 1"),
            "'schedule.streamed' has no effect: there is one chunk\n");
  EXPECT_EQ(said(", chunks: auto, chunk: tokens"),
            "'schedule.chunk' has no effect with chunks: auto\n");
  EXPECT_EQ(said(", chunks: 2, chunk: partners"), "");
  EXPECT_EQ(said(", chunk: tiles, streamed: false"),
            "'streamed: false' with chunks of tiles or results\n");
  EXPECT_EQ(said(", chunk: tiles, streamed: true"), "");
  EXPECT_EQ(said(", chunk: tiles, tile: [16, 24], fill: 16"),
            "not all tiles are multiples of 'schedule.fill', 16\n");
  EXPECT_EQ(said(", tile: [64, 16]"), "'schedule.tile' does not ascend\n");
  EXPECT_EQ(said(", tile: []"), "'schedule.tile' does not ascend\n");
  for (const char* const key :
       {"weights: fp8", "products: mxfp4-mxfp8", "types: [fp8]", "dies: [a]"}) {
    const std::string name = std::string(key).substr(0, std::string(key).find(':'));
    EXPECT_EQ(said(fmt::format(", {}", key)),
              fmt::format("'schedule.{}' has no effect: products fill no tiles\n", name));
    EXPECT_EQ(said(fmt::format(", chunk: tiles, {}", key)), "");
    EXPECT_EQ(said(fmt::format(", tile: 64, {}", key)), "");
  }
  EXPECT_EQ(said(", tile: 64, tile_columns: 64"),
            "'schedule.tile_columns' has no effect: chunks are not tiles\n");
  for (const char* const wrong : {"chunks: 0", "chunks: 257", "tile: 0", "tile: 4097",
                                  "chunk: tiles, tile_columns: 0", "chunk: rows"}) {
    EXPECT_NE(said(fmt::format(", {}", wrong)), "") << wrong;
  }
  EXPECT_EQ(said(", chunks: 256"), "");
  EXPECT_EQ(said(", tile: 4096"), "");
}

TEST(PolicyTexts, NameTheirPartsAndTransports) {
  const std::string plain = policy_of("alltoall", "sequential");
  const SystemSpec system = parse_system("description: d\n" + plain, "p");
  EXPECT_EQ(system.name + system.description + system.source, "pds");
  EXPECT_EQ(system.routing.name + system.placement.name, "identitycontiguous");
  EXPECT_EQ(system.dispatch.name + system.schedule.name, "alltoallsequential");
  EXPECT_EQ(system.sms, 0);
  const std::string parts = R"({"kind":"identity"}{"kind":"alltoall"}{"kind":"sequential"})";
  EXPECT_EQ(system.but_placement, system.transport + parts);
  EXPECT_EQ(parse_system(policy_of("{kind: alltoall}", "{kind: sequential}"), "p").but_placement,
            system.but_placement);
  EXPECT_EQ(parse_system(policy_of("{kind: alltoall, sms: 20}", "sequential"), "p").sms, 20);
  EXPECT_THROW(parse_system(policy_of("{kind: alltoall, sms: 1001}", "sequential"), "p"), Error);
  const std::string named = plain + "transport: deepep-normal\n";
  EXPECT_EQ(parse_system(named, "p").transport, "deepep-normal");
  const auto changed = [&](const std::vector<std::string>& changes) {
    std::vector<Override> overrides;
    for (const std::string& change : changes) overrides.push_back(parse_override(change));
    return parse_system(named, "p", overrides).transport;
  };
  const std::string own = parse_system(policy_of("dedup", "sequential"), "p").transport;
  EXPECT_NE(own, "deepep-normal");
  EXPECT_EQ(changed({"dispatch=dedup"}), own);
  EXPECT_EQ(changed({"dispatch=dedup", "transport=deepep-normal"}), "deepep-normal");
  EXPECT_EQ(changed({"schedule=sequential"}), "deepep-normal");
}

TEST(PolicyTexts, OfUnknownKindsHaveOneMistakeEach) {
  const auto said = [](const std::string& dispatch, const std::string& schedule) {
    try {
      parse_system(policy_of(dispatch, schedule), "p");
    } catch (const Error& e) {
      return e.diagnostics().size();
    }
    return std::size_t{0};
  };
  EXPECT_EQ(said("alltoal", "sequential"), 1U);
  EXPECT_EQ(said("{kind: alltoal, others: 3}", "sequential"), 1U);
  EXPECT_EQ(said("{others: 3}", "sequential"), 1U);
  EXPECT_EQ(said("alltoall", "none"), 1U);
  EXPECT_EQ(said("alltoal", "none"), 2U);
}

TEST(TimesInChunks, AreThoseOfTheSlowestPart) {
  const auto time = [](int chunks, double before, double experts, double after) {
    return time_in_chunks(chunks, Seconds(before), Seconds(experts), Seconds(after)).value;
  };
  EXPECT_EQ(time(1, 1, 2, 4), 7);
  EXPECT_EQ(time(3, 5, 1, 5), 30);  // exchanges without a pause
  EXPECT_EQ(time(3, 1, 5, 2), 18);  // experts behind the first and before the last exchange
  EXPECT_EQ(time(3, 5, 4, 1), 20);  // dispatches, then the last chunk
  EXPECT_EQ(time(3, 1, 4, 5), 20);
}

/// "CONTEXT+TOKENSxCOUNT" of each.
std::vector<std::string> texts_of(const std::vector<SequenceStep>& list) {
  std::vector<std::string> texts;
  for (const SequenceStep& each : list) {
    texts.push_back(fmt::format("{}+{}x{}", each.context, each.tokens, each.count));
  }
  return texts;
}

TEST(PartsOfPasses, HaveTheSequencesThatBeginInThem) {
  const std::vector<SequenceStep> list = {{.context = 0, .tokens = 4, .count = 3},
                                          {.context = 9, .tokens = 1, .count = 4}};
  EXPECT_EQ(tokens_of(list), 16);
  EXPECT_EQ(sequences_of(list), 7);
  EXPECT_THAT(texts_of(part_of(list, 0, 1)), ElementsAre("0+4x3", "9+1x4"));
  EXPECT_THAT(texts_of(part_of(list, 0, 2)), ElementsAre("0+4x2"));
  EXPECT_THAT(texts_of(part_of(list, 1, 2)), ElementsAre("0+4x1", "9+1x4"));
  EXPECT_THAT(texts_of(part_of(list, 1, 3)), ElementsAre("0+4x1"));  // from 5 to 10
  EXPECT_THAT(texts_of(part_of(list, 2, 3)), ElementsAre("9+1x4"));
  EXPECT_THAT(texts_of(part_of(list, 0, 3)), ElementsAre("0+4x2"));
}

TEST(PaddedPasses, FillTheNextSizeIfTheyOnlyDecode) {
  const auto padded_to = [](std::vector<SequenceStep> list) {
    return texts_of(padded(std::move(list), {4, 8}));
  };
  EXPECT_THAT(padded_to({{.context = 9, .tokens = 1, .count = 3}}), ElementsAre("9+1x3", "1+1x1"));
  EXPECT_THAT(padded_to({{.context = 9, .tokens = 1, .count = 4}}), ElementsAre("9+1x4"));
  EXPECT_THAT(padded_to({{.context = 9, .tokens = 1, .count = 5}}), ElementsAre("9+1x5", "1+1x3"));
  EXPECT_THAT(padded_to({{.context = 9, .tokens = 1, .count = 9}}), ElementsAre("9+1x9"));
  EXPECT_THAT(padded_to({{.context = 0, .tokens = 3, .count = 1}}), ElementsAre("0+3x1"));
  EXPECT_THAT(padded_to({}), IsEmpty());
}

TEST(ServedPasses, CountTheirTokensAndSequences) {
  ServingSpec spec;
  spec.batch.ranks = {{{.context = 0, .tokens = 4, .count = 2}},
                      {{.context = 9, .tokens = 1, .count = 3}}};
  EXPECT_EQ(tokens_of(spec, 2), 11);
  EXPECT_EQ(sequences_of(spec, 2), 5);
  EXPECT_TRUE(any_decodes(spec.batch));
  EXPECT_FALSE(all_decode(spec.batch));
  spec.batch.ranks.erase(spec.batch.ranks.begin());
  EXPECT_TRUE(all_decode(spec.batch));
  EXPECT_EQ(tokens_of(spec, 3), 9) << "one list for all ranks";
  // 6 new tokens on two ranks of a trace of 5: played twice.
  IterationSpec iteration;
  iteration.parallel = {.ep = 2, .etp = 1};
  iteration.serving = spec;
  TraceInfo info;
  info.experts = 32, info.top_k = 4, info.layers = {1};
  const IterationShape shape = shape_of(iteration, 2, 2, 0);
  const auto repeat = [&](std::int64_t tokens) {
    return make_serving_batches(balanced_trace(info, tokens, 5), shape, spec).repeat;
  };
  EXPECT_EQ(repeat(5), 2);
  EXPECT_EQ(repeat(6), 1);
  EXPECT_EQ(repeat(3), 2);
  EXPECT_EQ(repeat(2), 3);
}

}  // namespace
}  // namespace moesim
