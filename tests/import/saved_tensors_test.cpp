// SPDX-License-Identifier: Apache-2.0
// Files of torch.save that only a recorder in an unusual state writes, all by one script.
#include <gmock/gmock.h>

#include "sim/import/torch_file.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// FOLDER/NAME of every recording below.
const char* const saved_recordings = R"(
import os, sys
sys.path.insert(0, sys.argv[1])
from formats import Tensor, recorder, recorder_record, torch_save
at = sys.argv[2]

def capture(name, *tensors):
    torch_save(f"{at}/{name}/2/0-0.pt", tensors)
    torch_save(f"{at}/{name}/3/0-0.pt", tensors)

ids, scores = Tensor("Long", [[0, 1], [2, 3]]), Tensor("Float", [[0.5, 0.25], [1, 0]])
capture("swapped", ids, scores)
capture("three", scores, ids, ids)
capture("one", ids)
capture("two-ids", ids, ids)
capture("shapes", Tensor("Float", [[0.5], [1]]), ids)
capture("flat", Tensor("Float", [0.5, 1]), Tensor("Long", [0, 1]))
torch_save(f"{at}/dict/2/0-0.pt", {"a": ids})
capture("no-first", scores, ids)
torch_save(f"{at}/no-first/3/1-0.pt", [scores, ids])
capture("no-layer", scores, ids)
os.makedirs(f"{at}/no-layer/1")
os.makedirs(f"{at}/no-layer/4")
for layer in (2, 3):
    torch_save(f"{at}/by-name/{layer}/0-0.pt", {"scores": scores, "indices": ids})

first, second = [[0, 1], [2, 3]], [[4, 5], [6, 7]]
both = [Tensor("Long", first), Tensor("Long", second)]
marks = [[[int(e in row) for e in range(8)] for row in layer] for layer in (first, second)]
torch_save(f"{at}/routers/list/a.pt", both)
torch_save(f"{at}/routers/stacked/a.pt", Tensor("Long", [first, second]))
torch_save(f"{at}/routers/tokens-first/a.pt", Tensor("Long", [[a, b] for a, b in zip(first * 2, second * 2)]))
torch_save(f"{at}/routers/numbers/a.pt", {2: both[1], 1: both[0]})
torch_save(f"{at}/routers/names/a.pt", {"layer_1": both[0], "layer_2": both[1]})
torch_save(f"{at}/routers/named/a.pt", {"recorded_topk_indices": both})
torch_save(f"{at}/routers/marks/a.pt", [Tensor("Bool", layer) for layer in marks])
torch_save(f"{at}/routers/other/a.pt", {"a": both[0], "b": 3})

recorder(f"{at}/decode", [[recorder_record(7, 0, 0, 3, 2, None)]])
recorder(f"{at}/both", [[recorder_record(7, 0, 0, 3, 1, [2, 0, 1]), recorder_record(8, 0, 3, 2, 2, None)]])
recorder(f"{at}/mixed", [[recorder_record(7, 0, 0, 4, 3, [2])]])
recorder(f"{at}/below", [[recorder_record(7, 0, 0, 3, 1, [-1, 4])]])
recorder(f"{at}/rank", [[recorder_record(7, -1, 0, 3, 1, [3])]])
recorder(f"{at}/large-rank", [[recorder_record(7, (1 << 20) + 1, 0, 3, 1, [3])]])
recorder(f"{at}/repeated", [[recorder_record(7, 0, 0, 3, 1, [3])], [recorder_record(7, 1, 0, 3, 1, [3])]])
recorder(f"{at}/again", [[recorder_record(7, 0, 0, 3, 1, [3]), recorder_record(8, 0, 0, 3, 1, [3])]])

def batch(mask, kind="Long"):
    return {"routed_experts": Tensor("Short", [[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[1, 2], [3, 4]]]]),
            "attention_mask": Tensor(kind, [mask])}
torch_save(f"{at}/whole/a.pt", batch([1, 1, 1]))
torch_save(f"{at}/left/a.pt", batch([0, 1, 1]))
torch_save(f"{at}/right/a.pt", batch([1, 1, 0]))
torch_save(f"{at}/none/a.pt", batch([0, 0, 0]))
torch_save(f"{at}/real/a.pt", batch([1, 1, 1], "Float"))
torch_save(f"{at}/equal/a.pt", {
    "router_logits": [Tensor("Float", [[0, 1, 2, 3, 4, 5, 7, 6]] * 22) for _ in range(2)],
    "attention_mask": Tensor("Long", [[0] + [1] * 10, [0] * 11])})
)";

const std::string& recordings() {
  static const ScratchFolder folder;
  static const bool written = [] {
    write_bytes(folder / "save.py", saved_recordings);
    return std::system(("python3 -B " + (folder / "save.py") + " " + MOESIM_ROOT +
                        "/tests/import " + folder.path())
                           .c_str()) == 0;
  }();
  EXPECT_TRUE(written);
  return folder.path();
}

std::string saved(const std::string& kind, const std::string& name) {
  return told(kind, recordings() + "/" + name);
}

TEST(SavedRouterLists, AreOfManyForms) {
  const std::string list = saved("router-lists", "routers/list");
  EXPECT_THAT(list, HasSubstr(" 1: 0 1 2 3 2: 4 5 6 7"));
  for (const char* form : {"stacked", "numbers", "names", "named", "marks"}) {
    EXPECT_EQ(saved("router-lists", fmt::format("routers/{}", form)), list) << form;
  }
  EXPECT_THAT(saved("router-lists", "routers/tokens-first"),
              HasSubstr(" 1: 0 1 2 3 0 1 2 3 2: 4 5 6 7 4 5 6 7"));
  EXPECT_THAT(saved("router-lists", "routers/other"),
              HasSubstr("holds the keys a, b\nhint: router-lists are a list of tensors"));
  EXPECT_THAT(saved("npz", "routers/names/a.pt"),
              HasSubstr("is a file of torch.save with the keys layer_1, layer_2, without arrays of "
                        "NumPy\nhint: kind 'router-lists'"));
}

TEST(SavedCaptures, MayHaveNames) {
  EXPECT_EQ(saved("flame", "by-name"), saved("flame", "swapped"));
  EXPECT_THAT(saved("flame", "by-name"), HasSubstr("1: 0 1 2 3"));
}

TEST(SavedCaptures, AreScoresAndIdsInAnyOrder) {
  EXPECT_EQ(saved("flame", "swapped"), "top 2 [2] 1: 0 1 2 3 2: 0 1 2 3 rank 0");
  const std::string not_a_pair = ", not scores and indices [token][choice]\n";
  EXPECT_EQ(saved("flame", "three"),
            "error: holds float32 (2, 2), int64 (2, 2), int64 (2, 2)" + not_a_pair);
  EXPECT_EQ(saved("flame", "one"), "error: holds int64 (2, 2)" + not_a_pair);
  EXPECT_EQ(saved("flame", "two-ids"), "error: holds int64 (2, 2), int64 (2, 2)" + not_a_pair);
  EXPECT_EQ(saved("flame", "shapes"), "error: holds float32 (2, 1), int64 (2, 2)" + not_a_pair);
  EXPECT_EQ(saved("flame", "flat"), "error: holds float32 (2,), int64 (2,)" + not_a_pair);
  EXPECT_EQ(saved("flame", "dict"), "error: holds the keys a" + not_a_pair);
}

TEST(SavedCaptures, AreThereOfEveryLayer) {
  EXPECT_THAT(saved("flame", "no-first"),
              HasSubstr("layer 2 has no file of this name\nhint: the capture is not complete"));
  const auto of_model = [](int layers) {
    return told("flame", recordings() + "/no-layer", [&](ImportOptions& options) {
      if (layers == 4) options.moe_layers = {1, 2, 3};
      if (layers == 0) options.moe_layers.clear();
    });
  };
  EXPECT_EQ(of_model(3), saved("flame", "swapped")) << "the model has no experts there";
  EXPECT_THAT(of_model(4), HasSubstr("has no captures of layer 4\nhint: the capture is not"));
  EXPECT_EQ(of_model(0), saved("flame", "swapped")) << "before the first layer and behind the last";
}

/// The routing of tokens [first, last) of formats.py.
std::string routed(int first, int last) {
  std::string text;
  for (const int layer : {1, 2}) {
    text += fmt::format(" {}:", layer);
    for (int t = first; t < last; ++t) text += fmt::format(" {}", fmt::join(choice(t, layer), " "));
  }
  return text;
}

TEST(SavedPasses, HaveTheTokensOfTheirRequests) {
  const std::string dense = "\n3 rows: of dense layers\n";
  EXPECT_EQ(saved("sglang-recorder", "decode"),
            "top 2 step 7 [1, 1, 1]" + routed(0, 3) + " rank 0" + dense);
  EXPECT_EQ(saved("sglang-recorder", "both"), "top 2 step 7 [2, 1]" + routed(0, 3) +
                                                  " rank 0 step 8 [1, 1]" + routed(3, 5) +
                                                  " rank 0\n5 rows: of dense layers\n");
  EXPECT_EQ(saved("sglang-recorder", "mixed"),
            "top 2 step 7 [2, 1, 1]" + routed(0, 4) + " rank 0\n4 rows: of dense layers\n");
  EXPECT_EQ(saved("sglang-recorder", "below"), "error: has a request of -1 tokens\n");
  for (const char* const name : {"rank", "large-rank"}) {
    EXPECT_EQ(saved("sglang-recorder", name), "error: has an impossible rank\n");
  }
  EXPECT_EQ(saved("sglang-recorder", "repeated"),
            "top 2 step 7 [3]" + routed(0, 3) + " rank 0" + dense +
                "9 rows: of ranks that repeat another's tokens (tensor parallelism)\n");
  EXPECT_EQ(saved("sglang-recorder", "again"), "top 2 step 7 [3]" + routed(0, 3) +
                                                   " rank 0 step 8 [3]" + routed(0, 3) +
                                                   " rank 0\n6 rows: of dense layers\n")
      << "another pass";
}

TEST(SavedPasses, HaveTheirPhase) {
  const auto phase = [](const std::string& name) {
    const ScratchFolder scratch;
    import_trace("sglang-recorder", options_of(recordings() + "/" + name, scratch / "out"));
    return RoutingTrace::open(scratch / "out").info().phase;
  };
  EXPECT_EQ(phase("decode"), Phase::decode);
  EXPECT_EQ(phase("again"), Phase::prefill);
  EXPECT_EQ(phase("both"), Phase::mixed);
  EXPECT_EQ(phase("mixed"), Phase::mixed);
}

TEST(SavedBatches, LeavePaddingAndLastTokensOut) {
  const std::string last = "2 rows: of last tokens, which are not fed back\n";
  EXPECT_EQ(saved("verl", "whole"),
            "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7\n" + last + "0 rows: of padding (mask)\n");
  EXPECT_EQ(saved("verl", "left"),
            "top 2 [1] 1: 4 5 2: 6 7\n" + last + "2 rows: of padding (mask)\n");
  EXPECT_EQ(saved("verl", "right"),
            "top 2 [1] 1: 0 1 2: 2 3\n" + last + "2 rows: of padding (mask)\n");
  EXPECT_THAT(saved("verl", "none"), StartsWith("error: holds no tokens\n"));
  EXPECT_THAT(saved("verl", "real"), HasSubstr("is not a mask of 1 sequences of 3 columns"));
}

TEST(SavedLogits, OfEqualTokensAreNoWarmUp) {
  const std::vector<std::string> ten(10, "6 7");
  EXPECT_EQ(
      saved("hf-logits", "equal"),
      fmt::format("top 2 [10] 1: {0} 2: {0}\n24 rows: of padding (mask)\n", fmt::join(ten, " ")));
}

/// Of files of torch.save: "NAME SHAPE: VALUES" of every tensor of a list, or what is wrong.
TEST(StridedTensors, AreReadInTheOrderOfTheirShape) {
  const ScratchFolder scratch;
  write_bytes(scratch / "save.py", R"(
import sys
sys.path.insert(0, sys.argv[1])
from formats import Storage, Tensor, torch_save
six = Storage("Int", [0, 1, 2, 3, 4, 5])
torch_save(sys.argv[2], [
    Tensor("Int", None, [2, 3], [3, 1], six), Tensor("Int", None, [3, 2], [1, 3], six),
    Tensor("Int", None, [2, 2], [3, 1], six, 1), Tensor("Int", None, [1, 2], [7, 1], six, 4),
    Tensor("Int", None, [1], [1], six, 5), Tensor("Int", None, [2], [1], six, 5),
    Tensor("Int", None, [2], [6], six), Tensor("Int", None, [7], [0], six),
    Tensor("Int", None, [2, 2], [1, 0], six, 4), 5, [7, 8], [7, 1 << 31]])
)");
  ASSERT_EQ(std::system(("python3 -B " + (scratch / "save.py") + " " + MOESIM_ROOT +
                         "/tests/import " + (scratch / "a.pt"))
                            .c_str()),
            0);
  const TorchFile file(scratch / "a.pt");
  const auto& items = file.items(file.root(), "list");
  const auto read = [&](std::size_t i) {
    std::string text;
    const std::string error = error_of([&] {
      const NpyArray array = file.load(items.at(i), "t");
      for (std::int64_t v = 0; v < array.count(); ++v) text += fmt::format("{} ", array.integer(v));
      text += shape_text(array.shape());
    });
    const auto at = error.find("error: ");
    return error.empty() ? text : error.substr(at, error.find('\n') - at);
  };
  EXPECT_EQ(read(0), "0 1 2 3 4 5 (2, 3)");
  EXPECT_EQ(read(1), "0 3 1 4 2 5 (3, 2)");
  EXPECT_EQ(read(2), "1 2 4 5 (2, 2)");
  EXPECT_EQ(read(3), "4 5 (1, 2)");
  EXPECT_EQ(read(4), "5 (1,)");
  EXPECT_EQ(read(5), "error: reaches beyond its storage");
  EXPECT_EQ(read(6), "error: reaches beyond its storage");
  EXPECT_EQ(read(7), "error: has shape (7,) but only 6 stored elements");
  EXPECT_EQ(read(8), "4 4 5 5 (2, 2)");
  EXPECT_EQ(read(9), "error: t is not a tensor");
  EXPECT_THAT(file.integers(items.at(10), "n"), ElementsAre(7, 8));
  EXPECT_THAT(error_of([&] { file.integers(items.at(11), "n"); }),
              HasSubstr("n holds something that is not a 32-bit integer"));
  EXPECT_EQ(file.names(), "a list of 12");
}

/// Steps are numbered from 0 on, from file to file.
TEST(CountsOfSteps, AreNumberedFromZero) {
  const ScratchFolder scratch;
  const std::string step = "[[3, 1], [2, 2]]";
  write_bytes(scratch / "in/a.json", "{\"logical_count\": [" + step + ", " + step + "]}");
  write_bytes(scratch / "in/b.json", "{\"logical_count\": [" + step + "]}");
  ImportOptions options;
  options.inputs = {scratch / "in"};
  options.output = scratch / "out";
  options.top_k = 1;
  import_trace("sglang-counts", options);
  const auto trace = RoutingTrace::open(scratch / "out");
  ASSERT_EQ(trace.step_count(), 3);
  for (int s = 0; s < 3; ++s) EXPECT_EQ(trace.step(s).number(), s);
}

TEST(FlameCaptures, MayCountTheirLayersFromZero) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/flame-captures/1080", scratch / "out");
  options.numbering = "from-0";
  options.moe_layers = {2, 3};
  options.model_layers = 4;
  std::vector<double> seen;
  const Imported imported =
      import_trace("flame", options, [&](double done) { seen.push_back(done); });
  EXPECT_THAT(RoutingTrace::open(scratch / "out").info().layers, ElementsAre(2, 3));
  EXPECT_TRUE(imported.warnings.empty()) << "it was said";
  EXPECT_THAT(seen, ElementsAre(0, 0.5));
}

}  // namespace
}  // namespace moesim
