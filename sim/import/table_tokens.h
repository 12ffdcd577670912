// SPDX-License-Identifier: Apache-2.0
// Joins rows of a log to tokens: the choices of one request, layer by layer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/import/import_sink.h"
#include "sim/import/table_rows.h"

namespace moesim {

/// The tokens of one layer in the order of the log. A token that comes again begins a new pass.
struct LoggedLayer {
  struct Token {
    std::int32_t pass = 0;
    std::int64_t number = 0;  // from the log, else its position in the pass
    std::int64_t row = 0;     // of the ids
  };
  std::vector<Token> tokens;
  std::vector<std::int32_t> ids;   // a row per token; rows of one choice are joined at the end
  std::vector<float> weights;      // same order as ids; empty if there are none
  std::vector<std::int64_t> runs;  // lengths of runs of rows, if tokens have no number
  std::unordered_set<std::int64_t> seen;  // tokens of this pass
  std::int32_t pass = 0;

  /// A choice whose row says which of its token's it is: they come in any order.
  struct SlottedChoice {
    std::int32_t pass = 0;
    std::int64_t token = 0, slot = 0;
    std::int32_t id = 0;
    std::optional<float> weight = {};
  };
  std::vector<SlottedChoice> slotted;
  std::set<std::pair<std::int64_t, std::int64_t>> seen_slots;  // tokens and slots of this pass
};

/// The rows of one request. If the log names no requests: of one file or pass.
struct LoggedRequest {
  std::string where;
  std::optional<std::int64_t> step = {}, rank = {};
  std::set<std::string> phases = {};
  std::map<int, LoggedLayer> layers = {};
  int last_layer = -1;
};

/// All requests of a log. The ids of the whole log are kept in memory.
class LoggedTokens {
 public:
  explicit LoggedTokens(ImportSink& sink) : sink_(sink) {}

  void begin_file() { ++file_; }
  void add(const TableRow& row);
  bool empty() const { return requests_.empty(); }
  /// Hands all requests over, in the order in which they began.
  void hand_over();

 private:
  struct Key {
    std::int64_t step;
    int file;
    std::string request;
    std::int64_t rank;
    auto operator<=>(const Key&) const = default;
  };
  void add_to_layer(LoggedRequest& request, int layer, const TableRow& row,
                    std::optional<std::int64_t> token, std::size_t first, std::size_t count);
  void note_weights(const TableRow& row);
  void warn_of_weights();
  void join_slots(LoggedLayer& its) const;
  void join_files();
  void drop_repeated_files();
  void group_choices();
  void number_runs(const LoggedRequest& request, int layer, LoggedLayer& its) const;
  void check_choices(const LoggedRequest& request, int layer, const LoggedLayer& its) const;
  void hand_over(LoggedRequest& request, const std::vector<int>& layers,
                 const std::vector<int>& numbers);
  [[noreturn]] void refuse_layers(const std::vector<int>& layers, std::set<int> seen) const;

  ImportSink& sink_;
  int file_ = -1;
  std::map<Key, std::size_t> index_;
  std::vector<LoggedRequest> requests_;
  std::vector<Key> keys_;                      // of the requests
  std::int64_t choices_ = 0;                   // per token; 0: not yet known
  std::set<int> unwanted_;                     // layers that --layers does not name
  bool single_ = false;                        // every row has one choice
  std::int64_t lacking_ = 0;                   // number of tokens that lack layers
  bool kept_ = false;                          // whether some token has all layers
  bool weighted_ = false;                      // whether some row has weights
  std::optional<Diagnostic> unweighted_ = {};  // the first row that lacks some
  bool cut_ = false;                           // whether passes decided where sequences begin
};

}  // namespace moesim
