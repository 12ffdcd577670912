// SPDX-License-Identifier: Apache-2.0
// Writes the text form of a plan; parse.cpp reads it.
#include "sim/plan/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/plan/check.h"
#include "sim/plan/kernel_text.h"

namespace moesim {
namespace {

constexpr std::size_t rows_per_line = 8;

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-.:/+@").find(c) != std::string_view::npos;
}

/// The name itself, in quotes with escapes unless it is one plain word.
std::string quoted(const std::string& name) {
  if (!name.empty() && std::all_of(name.begin(), name.end(), is_bare)) return name;
  std::string text = "\"";
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (code < 0x20 || code == 0x7f) {
      text += fmt::format("\\x{:02x}", code);
    } else {
      text += c;
    }
  }
  return text + "\"";
}

/// What an op is and where it runs: `fc1-wgrad compute layer 3 backward experts`, with its label if
/// its type does not give it, and what is not 0.
std::string key_text(const Op& op) {
  const OpKey& key = op.key;
  std::string text = name_of(OpType{key.kind, key.role, Pass::forward});
  if (op.label != name_of(key.type())) text += " label " + quoted(op.label);
  text += fmt::format(" {} layer {} {} {}", name_of(op.stream),
                      key.layer < 0 ? "-" : std::to_string(key.layer), name_of(key.pass),
                      name_of(key.stage));
  if (key.microbatch != 0) text += fmt::format(" microbatch {}", key.microbatch);
  if (key.chunk != 0) text += fmt::format(" chunk {}", key.chunk);
  if (key.part != 0) text += fmt::format(" part {}", key.part);
  return text;
}

/// `unit 4096 padded transposed rounds 6 ring`: what is so.
std::string traits_text(const Exchange& exchange) {
  std::string text = fmt::format("unit {}", exchange.traffic.unit().value);
  if (exchange.padded) text += " padded";
  if (exchange.transposed) text += " transposed";
  if (exchange.rounds != 1) text += fmt::format(" rounds {}", exchange.rounds);
  if (exchange.ring) text += " ring";
  if (exchange.with_hosts) text += " hosts";
  if (exchange.sms != 0) text += fmt::format(" sms {}", exchange.sms);
  return text;
}

/// Bytes by the GPUs that they leave, also if the matrix is kept turned round.
void append_exchange_lines(std::string& text, const Op& op) {
  const Exchange& exchange = *op.exchange();
  auto out = std::back_inserter(text);
  const ByteMatrix traffic = op.traffic().moved();
  for (int from = 0; from < traffic.ranks(); ++from) {
    if (traffic.row(GpuId(from)).empty()) continue;
    fmt::format_to(out, "  {} ->", op.group[static_cast<std::size_t>(from)].value);
    for (const ByteMatrix::Entry& entry : traffic.row(GpuId(from))) {
      fmt::format_to(out, " {}:{}", op.group[entry.to.index()].value, entry.units);
    }
    text += '\n';
  }
  std::size_t on_line = 0;
  for (std::size_t i = 0; i < exchange.rows.size(); ++i) {
    const RowMove& row = exchange.rows[i];
    const bool new_line =
        i == 0 || on_line == rows_per_line || row.from != exchange.rows[i - 1].from;
    if (new_line) {
      fmt::format_to(out, "{}  rows {} ->", i == 0 ? "" : "\n", row.from.value);
      on_line = 0;
    }
    fmt::format_to(out, " {}:{}:{}", row.token.value, row.to.value,
                   list_text(choice_list(row.choices)));
    ++on_line;
  }
  if (!exchange.rows.empty()) text += '\n';
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string text = fmt::format("moesim-plan {}\nname {}\ngpus {}\n\n", plan_text_version,
                                 quoted(plan.name), plan.gpus);
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    fmt::format_to(out, "op {} {} ", i, key_text(op));
    const std::string gpus = list_text(op.group.list());
    if (const Kernels* kernels = op.kernels()) {
      fmt::format_to(out, "gpus {} {}", gpus, to_text(*kernels));
    } else {
      fmt::format_to(out, "exchange {} {}", gpus, traits_text(*op.exchange()));
    }
    if (!op.after.empty()) fmt::format_to(out, " after {}", list_text(op.after));
    text += '\n';
    if (op.exchange()) append_exchange_lines(text, op);
  }
  return text;
}

}  // namespace moesim
