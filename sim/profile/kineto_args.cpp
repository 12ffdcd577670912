// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/kineto_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/text.h"
#include "sim/profile/profile_builder.h"

namespace moesim {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 50;

std::int64_t bytes_of(std::string_view elements, std::int64_t each) {
  const std::int64_t count = flat_whole(elements);
  return count < 0 || count > most_elements ? 0 : count * each;
}

/// Letters, digits and a few marks of a group's name: it comes from the program that ran.
std::string plain_name(std::string_view raw) {
  std::string name;
  for (const char c : raw.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || c == '_' || c == '-' || c == ' ') name += c;
  }
  return name;
}

std::vector<std::vector<std::int64_t>> dims_of(std::string_view text) {
  std::vector<std::vector<std::int64_t>> dims;
  for (const std::string_view item : flat_items(text)) {
    std::vector<std::int64_t>& sizes = dims.emplace_back();
    for (const std::string_view size : flat_items(item)) sizes.push_back(flat_whole(size));
    const auto sound = [](std::int64_t s) { return s >= 0 && s <= 1 << 26; };
    if (!std::ranges::all_of(sizes, sound)) sizes.clear();
  }
  return dims;
}

std::optional<DataType> type_of_elements(std::string_view types, std::size_t operand) {
  static const std::map<std::string_view, DataType> known_types = {
      {"c10::BFloat16", DataType::bf16},
      {"c10::Half", DataType::fp16},
      {"float", DataType::fp32},
      {"c10::Float8_e4m3fn", DataType::fp8},
      {"c10::Float8_e5m2", DataType::fp8},
      {"c10::Float8_e4m3fnuz", DataType::fp8},
      {"c10::Float4_e2m1fn_x2", DataType::fp4}};
  const auto items = flat_items(types);
  if (operand >= items.size()) return DataType::bf16;
  const auto known = known_types.find(items[operand]);
  return known == known_types.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace

std::string ranks_text(std::string_view list) {
  std::string text;
  std::int64_t first = -1, last = -1;
  const auto end_run = [&] {
    if (first < 0) return;
    if (!text.empty()) text += ',';
    text += last == first ? std::to_string(first) : fmt::format("{}-{}", first, last);
  };
  for (const std::string_view item : flat_items(list)) {
    const std::int64_t rank = flat_whole(item);
    if (rank < 0) continue;
    if (first >= 0 && rank == last + 1) {
      last = rank;
      continue;
    }
    end_run();
    first = last = rank;
  }
  end_run();
  return text;
}

std::pair<KernelKind, ExchangeFacts> exchange_facts(const FlatObject& event, Profile& profile) {
  const auto arg = [&](const char* key) { return event.in("args", key); };
  ExchangeFacts facts;
  const std::int64_t each = element_bytes(arg("dtype"));
  facts.in_bytes = bytes_of(arg("In msg nelems"), each);
  facts.out_bytes = bytes_of(arg("Out msg nelems"), each);
  const std::int64_t ranks = flat_whole(arg("Group size"));
  facts.ranks = ranks > 0 && ranks < 1 << 24 ? static_cast<int>(ranks) : 0;
  facts.sequence = flat_whole(arg("Seq"));
  const std::string members = ranks_text(arg("Process Group Ranks"));
  std::string name = plain_name(arg("Process Group Description"));
  if (name.empty() || name == "undefined") name = "group " + plain_name(arg("Process Group Name"));
  facts.group = group_number(members.empty() ? name : name + ": " + members, profile);
  return {collective_kind(arg("Collective name")), facts};
}

std::optional<WorkShape> product_shape(std::string_view op, std::string_view dims,
                                       std::string_view types) {
  if (!op.starts_with("aten::")) return std::nullopt;
  op.remove_prefix(6);
  const bool added = op == "addmm" || op == "baddbmm";  // the first input is what is added to
  if (op != "mm" && op != "bmm" && op != "_scaled_mm" && !added) return std::nullopt;
  const std::size_t first = added ? 1 : 0;
  const auto sizes = dims_of(dims);
  if (sizes.size() < first + 2) return std::nullopt;
  const auto &a = sizes[first], &b = sizes[first + 1];
  const std::size_t axes = op == "bmm" || op == "baddbmm" ? 3 : 2;
  if (a.size() != axes || b.size() != axes || a[axes - 1] != b[axes - 2]) return std::nullopt;
  const std::int64_t batch = axes == 3 ? a[0] : 1;
  GroupedGemm gemm;
  gemm.k = a[axes - 1];
  gemm.n = b[axes - 1];
  const auto type = type_of_elements(types, first);
  if (!type) return std::nullopt;
  gemm.type = *type;
  if (batch < 1 || batch > 4096 || a[axes - 2] < 1 || gemm.n < 1 || gemm.k < 1) return std::nullopt;
  gemm.m.assign(static_cast<std::size_t>(batch), a[axes - 2]);
  return WorkShape{std::nullopt, gemm};
}

}  // namespace moesim
