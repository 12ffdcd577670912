// SPDX-License-Identifier: Apache-2.0
// Reads the text form of a plan, line by line; text.cpp writes it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/plan/check.h"
#include "sim/plan/kernel_text.h"
#include "sim/plan/line_reader.h"
#include "sim/plan/mistakes.h"
#include "sim/plan/text.h"
#include "sim/plan/written_groups.h"

namespace moesim {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_ids = std::numeric_limits<std::int32_t>::max();

template <class Enum>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(name_of(static_cast<Enum>(i)));
  return names;
}

template <class T>
std::vector<T> to_ids(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  for (std::string_view& line : lines) {
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  return lines;
}

class Parser {
 public:
  Parser(const std::string& text, const std::string& file, const PlanLimits& limits)
      : file_(file),
        most_gpus_(limits.gpus),
        lines_(split_lines(text)),
        room_(limits.listed, text.size()) {
    for (const std::string_view line : lines_) op_count_ += line.starts_with("op ") ? 1 : 0;
  }

  Plan run() {
    for (line_ = 0; line_ < lines_.size(); ++line_) {
      LineReader reader(lines_[line_], room_);
      if (reader.at_end()) continue;
      try {
        read(reader);
      } catch (const LineMistake& mistake) {
        add(line_, mistake);
        if (header_ < header_lines) break;  // nothing below makes sense
        if (!reader.indented()) exchange_ = Below::skip;
      }
    }
    if (mistakes_.empty() && header_ < header_lines) {
      mistakes_.add({Severity::error, file_, 0, 0, "the plan ends before its ops", "",
                     fmt::format("a plan starts with the lines moesim-plan {}, name and gpus",
                                 plan_text_version)});
    }
    close_exchange();
    mistakes_.throw_if_any();
    for (const PlanMistake& mistake : find_mistakes(plan_)) {
      add(op_line_[mistake.op.index()], {1, mistake.message, ""});
    }
    mistakes_.throw_if_any();
    return std::move(plan_);
  }

 private:
  enum class Below { nothing, exchange, skip };  // what indented lines belong to
  static constexpr int header_lines = 3;

  void add(std::size_t line, const LineMistake& mistake) {
    mistakes_.add({Severity::error, file_, static_cast<int>(line) + 1, mistake.column,
                   mistake.message, std::string(lines_[line]), mistake.hint});
  }

  void read(LineReader& reader) {
    if (header_ < header_lines) {
      read_header(reader);
      ++header_;
    } else if (reader.indented()) {
      read_below(reader);
    } else {
      close_exchange();
      exchange_ = Below::nothing;
      read_op(reader);
    }
  }

  void read_header(LineReader& reader) {
    if (header_ == 0) {
      const std::string_view word = reader.word("'moesim-plan'");
      if (word != "moesim-plan") {
        reader.fail(word, "not a plan",
                    fmt::format("a plan starts with the line moesim-plan {}", plan_text_version));
      }
      const std::string_view version = reader.word("a version");
      if (version != std::to_string(plan_text_version)) {
        reader.fail(version, fmt::format("version '{}' of the form of a plan", version),
                    fmt::format("this program reads version {}: make the plan again with it",
                                plan_text_version));
      }
    } else if (header_ == 1) {
      reader.expect("name");
      plan_.name = reader.name("the name of the plan");
    } else {
      reader.expect("gpus");
      plan_.gpus = static_cast<int>(reader.integer("the number of GPUs", 1, most_gpus_));
    }
    reader.expect_end();
  }

  std::int64_t last_gpu() const { return plan_.gpus - 1; }

  void read_op(LineReader& reader) {
    static const auto streams = names_of<Stream>(stream_count);
    static const auto passes = names_of<Pass>(2);
    static const auto stages = names_of<Stage>(stage_count);
    reader.expect("op");
    // Even a bad line takes an id, so that the ops below keep theirs.
    const OpId id = plan_.add({});
    op_line_.push_back(line_);
    const std::string_view number = reader.word("the id of the op");
    if (number != std::to_string(id.value) && !misnumbered_) {
      misnumbered_ = true;
      reader.fail(number, fmt::format("expected op {}, not '{}'", id.value, number),
                  "ops are numbered from 0 in the order of their lines");
    }
    Op op;
    const OpType type = read_type(reader);
    op.key.kind = type.kind;
    op.key.role = type.role;
    const bool labelled = reader.accept("label");
    if (labelled) op.label = reader.name("the label of the op");
    op.stream = static_cast<Stream>(reader.choice("a stream", streams));
    reader.expect("layer");
    if (!reader.accept("-"))
      op.key.layer = static_cast<int>(reader.integer("a layer", 0, most_ids));
    op.key.pass = static_cast<Pass>(reader.choice("a pass", passes));
    op.key.stage = static_cast<Stage>(reader.choice("a stage", stages));
    if (!labelled) op.label = name_of(op.key.type());
    for (const auto& [word, value] :
         {std::pair("microbatch", &op.key.microbatch), std::pair("chunk", &op.key.chunk),
          std::pair("part", &op.key.part)}) {
      if (reader.accept(word)) *value = static_cast<int>(reader.integer(word, 0, most_ids));
    }
    const bool kernels = reader.choice("a kind of work", {"gpus", "exchange"}) == 0;
    op.group = groups_.read(reader, last_gpu());
    if (kernels) {
      op.work = read_kernels(reader, op.group.size());
    } else {
      reader.take_room(reader.line(), std::ssize(op.group.list()));  // a matrix has all their rows
      op.work = read_exchange(reader);
    }
    if (reader.accept("after"))
      op.after = to_ids<OpId>(reader.ids("an op to wait for", op_count_ - 1));
    reader.expect_end();
    // What moves between whom cannot be said unless the list is sound, which find_mistakes says.
    const bool ascends = std::ranges::is_sorted(op.group, std::less_equal<>());
    if (op.exchange()) exchange_ = ascends ? Below::exchange : Below::skip;
    plan_.ops.back() = std::move(op);
  }

  /// What the op is, but for its pass.
  static OpType read_type(LineReader& reader) {
    const std::string_view word = reader.word("what the op is");
    const auto type = find_op_type(word);
    if (type && (type->role != Role::plain || type->pass == Pass::forward)) return *type;
    reader.fail(word, fmt::format("no op is called '{}'", word), op_type_hint(word));
  }

  Exchange read_exchange(LineReader& reader) {
    Exchange exchange;
    reader.expect("unit");
    exchange.traffic = ByteMatrix(Bytes(reader.integer("bytes of a unit", 1, most)));
    exchange.padded = reader.accept("padded");
    exchange.transposed = reader.accept("transposed");
    if (reader.accept("rounds")) {
      exchange.rounds = static_cast<int>(reader.integer("rounds", 0, most_ids));
    }
    exchange.ring = reader.accept("ring");
    exchange.with_hosts = reader.accept("hosts");
    if (reader.accept("sms")) exchange.sms = static_cast<int>(reader.integer("sms", 1, most_ids));
    return exchange;
  }

  void read_below(LineReader& reader) {
    if (exchange_ == Below::skip) return;
    if (exchange_ == Below::nothing) {
      reader.at_end();
      reader.fail(reader.word(""), "only an exchange has lines below it");
    }
    Exchange& exchange = std::get<Exchange>(plan_.ops.back().work);
    if (reader.accept("rows")) {
      read_rows(reader, exchange.rows);
    } else {
      read_matrix_row(reader, plan_.ops.back().group, exchange.traffic);
    }
  }

  /// Which member of the exchange a GPU is. Its list ascends, unless that is a mistake already.
  GpuId read_member(LineReader& reader, std::string_view word, const Group& group) const {
    const GpuId gpu(reader.integer_in(word, "a GPU", 0, last_gpu()));
    const std::size_t member = group.member(gpu);
    if (member == group.size()) {
      reader.fail(word, fmt::format("GPU {} takes no part in the exchange", gpu.value),
                  "list it behind 'exchange'");
    }
    return GpuId(static_cast<std::int64_t>(member));
  }

  void read_matrix_row(LineReader& reader, const Group& group, ByteMatrix& traffic) {
    const std::string_view source = reader.word("a GPU");
    const GpuId from = read_member(reader, source, group);
    if (from.value < traffic.ranks()) {
      reader.fail(source,
                  fmt::format("the matrix row of GPU {} comes too late", group[from.index()].value),
                  "rows ascend by source, each GPU once");
    }
    reader.expect("->");
    while (traffic.ranks() < from.value) traffic.add_row({});
    std::vector<ByteMatrix::Entry> row;
    do {
      const auto entry = reader.parts("GPU:units");
      row.push_back({read_member(reader, entry[0], group),
                     static_cast<std::uint32_t>(
                         reader.integer_in(entry[1], "units", 1, std::int64_t{0xffffffff}))});
    } while (!reader.at_end());
    const auto same_or_less = [](const auto& a, const auto& b) { return a.to >= b.to; };
    const auto bad = std::adjacent_find(row.begin(), row.end(), same_or_less);
    if (bad != row.end()) {
      reader.fail(source,
                  fmt::format("destination {} follows {}", group[std::next(bad)->to.index()].value,
                              group[bad->to.index()].value),
                  "destinations ascend, each GPU once");
    }
    traffic.add_row(row);
  }

  void read_rows(LineReader& reader, std::vector<RowMove>& rows) {
    const GpuId from(reader.integer("a GPU", 0, last_gpu()));
    reader.expect("->");
    do {
      const auto row = reader.parts("token:GPU:choices");
      const TokenId token(reader.integer_in(row[0], "a token", 0, most_ids));
      const GpuId to(reader.integer_in(row[1], "a GPU", 0, last_gpu()));
      Choices choices = 0;
      for (const auto k : reader.ids_in(row[2], "a choice", max_top_k - 1)) {
        choices |= Choices{1} << k;
      }
      rows.push_back({from, to, token, choices});
    } while (!reader.at_end());
  }

  /// Completes the matrix of the exchange that the lines so far belong to.
  void close_exchange() {
    if (exchange_ != Below::exchange) return;
    Op& op = plan_.ops.back();
    Exchange& exchange = std::get<Exchange>(op.work);
    while (exchange.traffic.ranks() < std::ssize(op.group.list())) exchange.traffic.add_row({});
    if (exchange.transposed) exchange.traffic = exchange.traffic.transposed();
  }

  const std::string& file_;
  const std::int64_t most_gpus_;
  std::vector<std::string_view> lines_;
  ListRoom room_;
  std::size_t line_ = 0;
  std::int64_t op_count_ = 0;  // lines that look like ops
  int header_ = 0;             // header lines read
  Below exchange_ = Below::nothing;
  bool misnumbered_ = false;
  Plan plan_;
  WrittenGroups groups_;
  std::vector<std::size_t> op_line_;  // [op]
  Mistakes mistakes_;
};

}  // namespace

Plan parse_plan(const std::string& text, const std::string& name, const PlanLimits& limits) {
  return Parser(text, name, limits).run();
}

}  // namespace moesim
