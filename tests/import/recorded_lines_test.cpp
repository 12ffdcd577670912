// SPDX-License-Identifier: Apache-2.0
// Recordings of a few lines: which layers they hold, how routes are encoded, and the mistakes of
// every text that is read line by line.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "sim/import/encoded_routes.h"
#include "sim/import/file_content.h"
#include "sim/import/layer_choice.h"
#include "tests/error_of.h"
#include "tests/import/formats.h"

namespace moesim {
namespace {

using testing::HasSubstr;

/// A pass of so many layers, whose tokens chose `first` in the first one and 1 in the others.
RoutedPass pass_with(int layers, int first = 0, int choices = 1) {
  std::vector<NpyArray> arrays;
  for (int l = 0; l < layers; ++l) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(2 * choices), l == 0 ? first : 1);
    arrays.push_back(NpyArray::of(std::move(ids), {2, choices}, "ids"));
  }
  return {"pass", ChoiceTable(std::move(arrays)), {2}};
}

/// "NUMBERS taken TAKEN dense DENSE mtp MTP top TOP_K", or what is wrong.
std::string chosen(const RoutedPass& pass, const std::function<void(ImportOptions&)>& change) {
  ImportOptions options;
  options.moe_layers = {1, 2};
  change(options);
  std::string text;
  const std::string error = error_of([&] {
    const LayerChoice of = choose_layers(pass, options);
    text = fmt::format("{} taken {} dense {} mtp {} top {}", of.numbers, of.taken, of.dense, of.mtp,
                       of.top_k);
  });
  const auto at = error.find("error: ") + 7;
  return error.empty() ? text : error.substr(at, error.find('\n', at) - at);
}

TEST(LayersOfRecordings, AreThoseOfTheModelOrAll) {
  const auto nothing = [](ImportOptions&) {};
  EXPECT_EQ(chosen(pass_with(2), nothing), "[1, 2] taken [0, 1] dense [] mtp 0 top 1");
  EXPECT_EQ(chosen(pass_with(3), nothing), "[1, 2] taken [1, 2] dense [0] mtp 0 top 1");
  EXPECT_EQ(chosen(pass_with(4), nothing), "[1, 2] taken [1, 2] dense [0, 3] mtp 0 top 1");
  EXPECT_EQ(chosen(pass_with(1), nothing), "has 1 layer but the model has 2 MoE layers");
  EXPECT_EQ(chosen(pass_with(3),
                   [](auto& o) {
                     o.moe_layers = {1, 3};
                   }),
            "has 3 layers but the model has 2 MoE layers");
  EXPECT_EQ(chosen(pass_with(2),
                   [](auto& o) {
                     o.layers = {5, 4}, o.moe_layers = {};
                   }),
            "[4, 5] taken [1, 0] dense [] mtp 0 top 1");
  EXPECT_EQ(chosen(pass_with(2),
                   [](auto& o) {
                     o.layers = {0, 2}, o.moe_layers = {2};
                   }),
            "[2] taken [1] dense [0] mtp 0 top 1");
}

TEST(LayersOfRecordings, OfRoutersMayBeOfMultiTokenPrediction) {
  const auto routers = [](int layers, int first, int mtp) {
    RoutedPass pass = pass_with(layers, first);
    pass.of_routers = true;
    return chosen(pass, [&](auto& o) { o.mtp_layers = mtp; });
  };
  EXPECT_EQ(routers(3, 0, 0), "[1, 2] taken [1, 2] dense [0] mtp 0 top 1") << "as engines write";
  EXPECT_EQ(routers(3, -1, 0), "[1, 2] taken [1, 2] dense [0] mtp 0 top 1");
  EXPECT_EQ(routers(3, 1, 0), "[1, 2] taken [0, 1] dense [] mtp 1 top 1");
  EXPECT_EQ(routers(3, 1, 1), "[1, 2] taken [0, 1] dense [] mtp 1 top 1");
  EXPECT_EQ(routers(4, 1, 2), "[1, 2] taken [0, 1] dense [] mtp 2 top 1");
  EXPECT_EQ(routers(4, 1, 0), "has 4 routers but the model has 2 MoE layers");
  EXPECT_EQ(routers(4, 1, 1),
            "has 4 routers but the model has 2 MoE layers and 1 of multi-token prediction");
  EXPECT_EQ(routers(3, 1, 2),
            "has 3 routers but the model has 2 MoE layers and 2 of multi-token prediction");
}

TEST(ChoicesOfRecordings, BeyondTopKAreNone) {
  const auto left_out = [](int second, int top_k) {
    std::vector<std::int32_t> ids = {3, second, 4, -1};
    const RoutedPass pass{"pass", ChoiceTable({NpyArray::of(std::move(ids), {2, 2}, "ids")}), {2}};
    ImportOptions options;
    options.layers = {0}, options.top_k = top_k;
    const LayerChoice choice = choose_layers(pass, options);
    return error_of([&] { check_left_out(pass, choice, 0, 2); });
  };
  EXPECT_EQ(left_out(-1, 1), "");
  EXPECT_EQ(left_out(5, 2), "");
  EXPECT_EQ(left_out(5, 1), "ids: error: has 2 choices per token but top-k is 1\n");
  EXPECT_EQ(chosen(pass_with(2, 0, 2), [](auto& o) { o.top_k = 3; }),
            "has 2 choices per token but top-k is 3");
}

/// "TYPE SHAPE VALUES" of routes, or what is wrong.
std::string routes_of(const std::string& json) {
  ImportOptions options;
  options.model_layers = 1, options.top_k = 2;
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(json);
  const JsonElement routes = parser.parse(padded).value();
  std::string text;
  const std::string error = error_of([&] {
    const NpyArray array = encoded_routes(routes, {'i', 2}, options, "w");
    text = array.describe();
    for (std::int64_t i = 0; i < array.count(); ++i) text += fmt::format(" {}", array.integer(i));
  });
  return error.empty() ? text : error.substr(10, error.find('\n') - 10);
}

TEST(EncodedRoutes, AreListsBytesOrBoth) {
  EXPECT_EQ(routes_of("[[[1, 2]], [[3, 4]]]"), "int32 (2, 1, 2) 1 2 3 4");
  EXPECT_EQ(routes_of(R"("AQACAAMABAA=")"), "int16 (2, 1, 2) 1 2 3 4");
  EXPECT_EQ(routes_of(R"({"data": "AQIDBA==", "shape": [2, 1, 2]})"), "uint8 (2, 1, 2) 1 2 3 4");
  EXPECT_EQ(routes_of(R"({"data": "AQACAA==", "shape": [1, 1, 2]})"), "int16 (1, 1, 2) 1 2");
  EXPECT_EQ(routes_of(R"({"data": "AQAAAAIAAAA=", "shape": [1, 1, 2]})"), "int32 (1, 1, 2) 1 2");
  EXPECT_EQ(routes_of(R"({"data": "AQAAAAAAAAACAAAAAAAAAA==", "shape": [1, 1, 2]})"),
            "int64 (1, 1, 2) 1 2");
  EXPECT_EQ(routes_of(R"({"data": "AQACAA==", "shape": [1, 1, 2], "dtype": "uint16"})"),
            "uint16 (1, 1, 2) 1 2");
  EXPECT_EQ(routes_of(R"({"data": "0RjUA", "shape": [2, 1, 2], "dtype": "uint8"})"),
            "uint8 (2, 1, 2) 1 2 3 4")
      << "base85";
  EXPECT_EQ(routes_of(R"("nrlre1:int16:1x1x2:AQACAA==")"), "int16 (1, 1, 2) 1 2");
  EXPECT_EQ(routes_of(R"("nrlre1:int16:0x1x2:")"), "int16 (0, 1, 2)");
  EXPECT_EQ(routes_of(R"({"data": "", "shape": [0, 1, 2]})"), "uint8 (0, 1, 2)");
  for (const auto& [name, type] :
       std::vector<std::pair<std::string, std::string>>{{"int64", "int64"},
                                                        {"int32", "int32"},
                                                        {"int16", "int16"},
                                                        {"int8", "int8"},
                                                        {"uint16", "uint16"},
                                                        {"uint8", "uint8"}}) {
    EXPECT_EQ(type_of_routes(name, "w").name(), type);
  }
}

TEST(EncodedRoutes, ThatFillNoShapeAreRefused) {
  EXPECT_EQ(routes_of("5"), "holds routes that are not base64 text");
  EXPECT_EQ(routes_of(R"("AQAC")"),
            "holds 3 bytes of routes; a token of 1 layers has 2 choices of int16 each, 4 bytes");
  EXPECT_EQ(routes_of(R"({"shape": [1]})"),
            "holds routes that are an object without text in 'data'");
  for (const char* const shape : {"", R"(, "shape": [])", R"(, "shape": [-1])", R"(, "shape": 3)",
                                  R"(, "shape": [1048576, 1048577])"}) {
    EXPECT_EQ(routes_of(fmt::format(R"({{"data": "AQ=="{}}})", shape)),
              "holds routes without a sound 'shape'")
        << shape;
  }
  EXPECT_EQ(routes_of(R"({"data": "AQIDBA==", "shape": [5]})"),
            "holds 8 characters of routes, which fill no shape (5,)");
  EXPECT_EQ(routes_of(R"({"data": "AQIDBA==", "shape": [4], "dtype": 5})"),
            "holds routes of the unknown type \"(no text)\"");
  EXPECT_EQ(routes_of(R"("nrlre1:int16:1x1x3:AQACAA==")"),
            "holds 4 bytes of routes, which fill no shape 1x1x3");
  EXPECT_EQ(routes_of(R"("nrlre1:int16:1x2:AQACAA==")"),
            "holds 4 bytes of routes, which fill no shape 1x2");
  EXPECT_EQ(routes_of(R"({"data": "", "shape": [1, 1, 2]})"),
            "holds 0 characters of routes, which fill no shape (1, 1, 2)");
  EXPECT_EQ(routes_of(R"({"data": "", "shape": [1048576, 1048576]})"),
            "holds 0 characters of routes, which fill no shape (1048576, 1048576)")
      << "as many as any response holds";
  for (const char* const shape : {"1x1xa", "1x1x2a", "1x1x2x1", "1xx2", "-1x1x-2"}) {
    EXPECT_EQ(routes_of(fmt::format(R"("nrlre1:int16:{}:AQACAA==")", shape)),
              fmt::format("holds 4 bytes of routes, which fill no shape {}", shape));
  }
}

TEST(Headers, OfAnswersEndWithAnEmptyLine) {
  EXPECT_EQ(length_of_headers("HTTP/1.1 200 OK\n\nabc"), 17U);
  EXPECT_EQ(length_of_headers("HTTP/1.1 200 OK\r\n\r\nabc"), 19U);
  EXPECT_EQ(length_of_headers("HTTP/1.1 200 OK\na: b\n\n\n"), 22U) << "the first of two";
  EXPECT_EQ(length_of_headers("HTTP/1.1 200 OK\na: b"), 20U) << "all";
  EXPECT_EQ(length_of_headers("a: b\n\nabc"), 0U);
}

TEST(Tags, AreBracketsThatWordsFollow) {
  EXPECT_EQ(length_of_tags("[12] a"), 5U);
  EXPECT_EQ(length_of_tags(" [12:00 TP0] [a [b]] a"), 21U);
  for (const char* const line : {"", " ", "a [1] b", "[1, 2]", "[1, 2]\r", "[1], [2]", "[1]]",
                                 "[1] [2]", "[1, 2", "[\"a] b\"]", "[[1, 2] 3"}) {
    EXPECT_EQ(length_of_tags(line), 0U) << line;
  }
}

TEST(Headers, OfEventsAndOfCurlAreTold) {
  for (const char* const line : {"event: a", "id: 1", "retry: 2", ": ping", "* Connected", "> POST",
                                 ">\r\n", ">\n", "< HTTP", "<\r\n", "<\n"}) {
    EXPECT_TRUE(is_event_field(line)) << line;
  }
  for (const char* const line : {"data: {}", "*a", ">a", "<a", "event", " : a", "{}", ""}) {
    EXPECT_FALSE(is_event_field(line)) << line;
  }
}

/// The first line of what is wrong with a file of that kind, without its folder; "" if nothing is.
std::string wrong_with(const std::string& kind, const std::string& name, const std::string& text,
                       const std::function<void(ImportOptions&)>& change = {}) {
  const ScratchFolder scratch;
  write_bytes(scratch / ("in/" + name), text);
  ImportOptions options = options_of(scratch / "in", scratch / "out");
  if (change) change(options);
  const std::string error = error_of([&] { import_trace(kind, options); });
  return replace_all(error.substr(0, error.find('\n')), scratch / "in/", "");
}

TEST(LinesOfEsft, HaveTheirMistakesInTheirPlaces) {
  const auto one_layer = [](ImportOptions& o) { o.moe_layers = {2}, o.model_layers = 0; };
  const auto wrong = [&](const std::string& text) {
    return wrong_with("esft", "expert_weights_2.txt", text, one_layer);
  };
  const std::string good = "0\t1\t\t0.5\t0.25\n", at = "expert_weights_2.txt:2: error: ";
  EXPECT_EQ(wrong(good), "");
  EXPECT_EQ(wrong(good + "7\t1\t\t0\t1\r\n"), "");
  EXPECT_EQ(wrong(good + "0\t1\t0.5\t0.25\n"), at + "no two tabs between ids and weights");
  EXPECT_EQ(wrong(good + "0\t8\t\t0.5\t0.25\n"), at + "expert 8 of a model with 8 experts");
  EXPECT_EQ(wrong(good + "0\t-1\t\t0.5\t0.25\n"), at + "expert -1 of a model with 8 experts");
  EXPECT_EQ(wrong(good + "0\t1\t\t0.5\n"), at + "2 ids but 1 weights");
  EXPECT_EQ(wrong(good + "0\t1\t2\t\t0.5\t0.5\t0.5\n"), at + "3 ids are not rows of 2");
  EXPECT_EQ(wrong(good + "0\tx\t\t0.5\t0.5\n"), at + "'x' is not a number");
  EXPECT_EQ(wrong(good + "0\t1x\t\t0.5\t0.5\n"), at + "'1x' is not a number");
  EXPECT_EQ(wrong(good + "0\t1\t\t0.5\t0.5x\n"), at + "'0.5x' is not a number");
  EXPECT_EQ(wrong(""), "expert_weights_2.txt: error: is empty");
}

TEST(FilesOfEsft, AreOfALayerEach) {
  const ScratchFolder scratch;
  const std::string line = "0\t1\t\t0.5\t0.25\n";
  const auto wrong = [&](const std::string& first, const std::string& second) {
    std::filesystem::remove_all(scratch / "in");
    std::filesystem::remove_all(scratch / "out");
    write_bytes(scratch / "in/expert_weights_1.txt", first);
    write_bytes(scratch / "in/a_expert_weights_2.txt", second);
    write_bytes(scratch / "in/notes.txt", "x");
    const std::string error =
        error_of([&] { import_trace("esft", options_of(scratch / "in", scratch / "out")); });
    return replace_all(error.substr(0, error.find('\n')), scratch / "in/", "");
  };
  EXPECT_EQ(wrong(line, line), "");
  EXPECT_EQ(
      wrong(line, "0\t1\t2\t3\t\t1\t1\t1\t1\n"),
      "a_expert_weights_2.txt:1: error: layer 2 has 2 tokens in sequence 0 but layer 1 has 1");
  EXPECT_EQ(wrong(line + line, line),
            "a_expert_weights_2.txt: error: layer 2 has 1 sequence but layer 1 has 2");
  EXPECT_EQ(wrong(line, line + line + line),
            "a_expert_weights_2.txt: error: layer 2 has 3 sequences but layer 1 has 1");
}

std::string trace_line(const std::string& change, const std::string& to) {
  const std::string line =
      R"({"step": 3, "block": "decoder", "layer": 1, "rank": 0, "num_tokens": 2, "topk": 2, )"
      R"("top_indices": [[0, 1], [2, 3]]})"
      "\n";
  return change.empty() ? line : replace_all(line, change, to);
}

TEST(LinesOfMegatron, HaveTheirFields) {
  const auto wrong = [](const std::string& change, const std::string& to) {
    const std::string error =
        wrong_with("megatron-trace", "r.jsonl", trace_line("", "") + trace_line(change, to),
                   [](auto& o) { o.moe_layers = {}, o.numbering = "from-0"; });
    return error;
  };
  const std::string at = "r.jsonl:2: error: ";
  EXPECT_EQ(wrong("\"layer\": 1", "\"layer\": 2"), "");
  EXPECT_EQ(wrong("\"block\": \"decoder\", \"layer\": 1", "\"layer\": 2"), "");
  EXPECT_EQ(wrong("decoder", "mtp"), "");
  EXPECT_EQ(wrong("\"step\": 3", "\"step\": 4"), "");
  EXPECT_EQ(wrong("\"step\": 3", "\"step\": 2"), at + "step 2 comes after step 3");
  EXPECT_EQ(wrong("\"rank\": 0", "\"rank\": 1"), at + "holds lines of several ranks");
  for (const char* const key : {"step", "layer", "rank", "num_tokens", "topk"}) {
    EXPECT_EQ(wrong(fmt::format("\"{}\"", key), "\"other\""),
              at + fmt::format("has no sound '{}'", key));
  }
  EXPECT_EQ(wrong("\"rank\": 0", "\"rank\": 1048577"), at + "has no sound 'rank'");
  EXPECT_EQ(wrong("\"topk\": 2", "\"topk\": 65536"), at + "has no sound 'topk'");
  EXPECT_EQ(wrong("\"step\": 3", "\"step\": 1099511627776"), "");
  EXPECT_EQ(wrong("\"step\": 3", "\"step\": 1099511627777"), at + "has no sound 'step'");
  EXPECT_EQ(wrong("top_indices", "indices"), at + "has no 'top_indices'");
  EXPECT_EQ(wrong("\"num_tokens\": 2", "\"num_tokens\": 3"),
            at + "has 2 rows of 4 ids in all where 3 x 2 are due");
  EXPECT_EQ(wrong("\"topk\": 2", "\"topk\": 1"),
            at + "has 2 rows of 4 ids in all where 2 x 1 are due");
}

TEST(TokensOfGptOss, FollowEachOther) {
  const auto token = [](int position, const std::string& layers) {
    return fmt::format(R"({{"token_{}": {{{}}}}})", position, layers);
  };
  const auto layer = [](int number, const std::string& ids, const std::string& probs) {
    return fmt::format(R"("layer_{}": {{"selected_experts": [{}], "selected_probs": [{}]}})",
                       number, ids, probs);
  };
  const std::string good = layer(1, "0, 1", "1, 0"), start = token(5, good);
  const auto wrong = [&](const std::string& second) {
    const std::string error =
        wrong_with("gpt-oss", "a.json", R"({"router_data": [)" + start + ", " + second + "]}",
                   [](auto& o) { o.moe_layers = {}; });
    return error;
  };
  const std::string at = "a.json: error: ";
  EXPECT_EQ(wrong(token(6, good)), "");
  EXPECT_EQ(wrong(token(7, good)), at + "token_7 comes where token_6 is due");
  EXPECT_EQ(wrong(token(5, good)), at + "token_5 comes where token_6 is due");
  EXPECT_EQ(wrong(token(6, good + ", " + layer(2, "0, 1", "1, 0"))),
            at + "token_6: has 2 layers but the first token has 1");
  EXPECT_EQ(wrong(token(6, layer(2, "0, 1", "1, 0"))),
            at + "token_6: has layer_2 but the first token has not");
  EXPECT_EQ(wrong(token(6, layer(1, "0", "1, 0"))),
            at + "token_6: layer_1 has 1 experts but the first token has 2");
  EXPECT_EQ(wrong(token(6, layer(1, "0, 1", "1"))),
            at + "token_6: layer_1 has 1 probabilities for 2 experts");
  EXPECT_EQ(wrong(token(6, layer(1, "0, 8", "1, 0"))),
            at + "token_6: layer_1 chose expert 8 of a model with 8 experts");
  EXPECT_EQ(wrong(token(6, layer(1, "0, 7", "1, 0"))), "");
  EXPECT_EQ(wrong(token(6, layer(1, "0, 0.5", "1, 0"))), at + "token_6: layer_1 chose expert 0.5");
  EXPECT_EQ(wrong(R"({"token_x": {}})"), at + "router_data: 'token_x' is not a token");
  EXPECT_EQ(wrong(R"({"token_6": {"layer_1x": {}}})"),
            at + "router_data: 'layer_1x' is not a layer");
}

}  // namespace
}  // namespace moesim
