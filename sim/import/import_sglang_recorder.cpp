// SPDX-License-Identifier: Apache-2.0
// SGLang's expert distribution recorder, mode per_token (sgl-project/sglang,
// python/sglang/srt/eplb/expert_distribution.py): a .pt file per rank with the slots that every
// token of every forward pass chose, and the map of slots to experts.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/repeated_ranks.h"
#include "sim/import/torch_file.h"

namespace moesim {
namespace {

/// ForwardMode of the recorder.
enum : std::int64_t { extend_mode = 1, decode_mode = 2, idle_mode = 4 };

struct RecorderFile {
  std::string path;
  TorchFile content;
  std::optional<NpyArray> logical_of;  // [layer][slot]
};

/// One forward pass of one rank.
struct Record {
  std::int64_t pass = 0, rank = 0;
  const RecorderFile* file = nullptr;
  const PickleValue* value = nullptr;
};

void add_records(const RecorderFile& file, std::vector<Record>& records, ImportSink& sink) {
  const TorchFile& content = file.content;
  if (pickle_get(content.root(), "logical_count") != nullptr) {
    throw error_in(file.path, "holds counts of experts (mode stat), not the choices of tokens",
                   "kind sglang-counts reads it; or record with mode per_token");
  }
  for (const PickleValue& record :
       content.items(content.at(content.root(), "records"), "records")) {
    if (pickle_get(record, "topk_ids_of_layer") == nullptr) {
      throw error_in(file.path, "holds counts of passes (mode per_pass), not the choices of tokens",
                     "kind sglang-counts reads it; or record with mode per_token");
    }
    if (is_of_draft_model(record)) {
      const NpyArray ids = content.load_at(record, "topk_ids_of_layer");
      if (ids.shape().size() == 3) sink.drop("of a draft model", ids.shape()[0] * ids.shape()[1]);
      continue;
    }
    records.push_back({content.integer_at(record, "forward_pass_id"),
                       content.integer_at(record, "rank"), &file, &record});
  }
}

/// The new tokens of each request; a decode pass has one token of each.
std::vector<std::int32_t> lengths_of(const Record& record, std::int64_t tokens,
                                     const std::string& where) {
  const TorchFile& content = record.file->content;
  std::vector<std::int32_t> lengths;
  std::int64_t sum = 0;
  const PickleValue* extend = pickle_get(*record.value, "extend_seq_lens");
  if (extend != nullptr && extend->is_list()) {
    lengths = content.integers(*extend, "extend_seq_lens");
    for (const std::int32_t length : lengths) {
      if (length < 0) throw error_in(where, fmt::format("has a request of {} tokens", length));
      sum += length;
    }
  }
  if (sum > tokens) {
    throw error_in(
        where, fmt::format("its requests add up to {} tokens but the ids have {}", sum, tokens));
  }
  std::erase(lengths, 0);
  lengths.insert(lengths.end(), static_cast<std::size_t>(tokens - sum), 1);
  return lengths;
}

std::optional<Phase> phase_of_mode(std::int64_t mode) {
  if (mode == extend_mode) return Phase::prefill;
  if (mode == decode_mode) return Phase::decode;
  return Phase::mixed;
}

void add_record(const Record& record, RepeatedRanks& ranks, ImportSink& sink) {
  const TorchFile& content = record.file->content;
  const std::int64_t mode = content.integer_at(*record.value, "forward_mode");
  const std::string where =
      fmt::format("{}, pass {} of rank {}", record.file->path, record.pass, record.rank);
  const NpyArray ids = content.load_at(*record.value, "topk_ids_of_layer");
  if (ids.shape().size() != 3) {
    throw error_in(
        where, fmt::format("its ids are {}, not [layer][token][choice]", shape_text(ids.shape())));
  }
  const std::int64_t tokens = ids.shape()[1];
  if (tokens == 0) return;
  if (mode == idle_mode) return sink.drop("of idle passes", tokens * ids.shape()[0]);
  if (record.rank < 0 || record.rank > 1 << 20) throw error_in(where, "has an impossible rank");
  RoutedPass pass{where, ChoiceTable(ids, {}, "ltk"), lengths_of(record, tokens, where)};
  ranks.begin(record.pass);
  if (ranks.repeats(pass.ids)) return sink.drop(repeated_rank_rows, tokens * ids.shape()[0]);
  pass.step = record.pass;
  pass.source_rank = static_cast<int>(record.rank);
  pass.phase = phase_of_mode(mode);
  pass.logical_of = record.file->logical_of;
  sink.add(pass);
}

}  // namespace

void import_sglang_recorder(ImportSink& sink) {
  sink.experts();
  std::vector<std::unique_ptr<RecorderFile>> files;
  std::vector<Record> records;
  for (const std::string& path : input_files(sink.options().inputs)) {
    files.emplace_back(new RecorderFile{path, TorchFile(path), {}});
    RecorderFile& file = *files.back();
    add_records(file, records, sink);
    file.logical_of = file.content.load_at(file.content.root(), "last_physical_to_logical_map");
  }
  std::ranges::stable_sort(records, {}, [](const Record& r) { return std::pair(r.pass, r.rank); });
  RepeatedRanks ranks;
  double done = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i > 0 && records[i].pass == records[i - 1].pass && records[i].rank == records[i - 1].rank) {
      throw error_in(
          records[i].file->path,
          fmt::format("pass {} of rank {} is recorded twice", records[i].pass, records[i].rank),
          "give the files of one recording, each once");
    }
    sink.progress(done++ / static_cast<double>(records.size()));
    add_record(records[i], ranks, sink);
  }
}

}  // namespace moesim
