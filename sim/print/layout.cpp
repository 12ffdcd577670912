// SPDX-License-Identifier: Apache-2.0
#include "sim/print/layout.h"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>

#include "sim/print/render.h"

namespace moesim {
namespace {

using Kind = TableColumn::Kind;
constexpr std::size_t gap = 2;             // between columns
constexpr std::size_t least_prose = 40;    // characters of a line of prose
constexpr std::size_t least_key = 12;      // a name is not cut shorter
constexpr std::size_t figures_wanted = 2;  // before names are cut

/// A column that is shown, and how wide.
struct Place {
  std::size_t column, width;
};

std::size_t natural_width(const Table& table, std::size_t column) {
  std::size_t width = table.columns[column].name.size();
  for (const auto& row : table.rows) {
    if (column < row.size()) width = std::max(width, row[column].text.size());
  }
  return width;
}

bool fixed(const TableColumn& c) { return c.kind == Kind::key || c.kind == Kind::prose; }

std::size_t sum_of(const std::vector<Place>& places) {
  std::size_t sum = 0;
  for (const Place& p : places) sum += p.width + gap;
  return sum < gap ? 0 : sum - gap;
}

/// Cuts the widest names until `more` characters fit next to them.
void cut_keys(const Table& table, std::vector<Place>& places, std::size_t width, std::size_t more) {
  while (sum_of(places) + more > width) {
    Place* widest = nullptr;
    for (Place& p : places) {
      const bool cuttable = table.columns[p.column].kind == Kind::key && p.width > least_key;
      if (cuttable && (widest == nullptr || p.width > widest->width)) widest = &p;
    }
    if (widest == nullptr) return;
    --widest->width;
  }
}

/// Which columns of a block there is room for.
std::vector<Place> places_of(const Table& table, int block, std::size_t width,
                             std::vector<std::string>& left_out) {
  std::vector<Place> places;
  std::vector<Place> others;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const TableColumn& c = table.columns[i];
    if (c.kind != Kind::key && (c.block != block || !c.telling)) continue;
    const Place place{i, natural_width(table, i)};
    if (width != 0 && !fixed(c)) {
      others.push_back(place);
    } else {
      places.push_back(place);
      const bool narrow = width != 0 && c.kind == Kind::prose;
      if (narrow) places.back().width = std::min(places.back().width, least_prose);
    }
  }
  if (width == 0) return places;
  const bool prose = std::ranges::any_of(table.columns, [](const TableColumn& c) {
    return c.kind == Kind::prose;  // such a table is a list of names, which people copy
  });
  std::size_t more = 0;
  for (std::size_t i = 0; i < std::min(figures_wanted, others.size()); ++i) {
    more += others[i].width + gap;
  }
  if (!prose) cut_keys(table, places, width, more);
  for (const Place& p : others) {
    const bool room = left_out.empty() && sum_of(places) + gap + p.width <= width;
    if (room || places.empty()) {
      places.push_back(p);
    } else {
      left_out.push_back(column_flag(table.columns[p.column]));
    }
  }
  std::ranges::sort(places, {}, &Place::column);
  for (Place& p : places) {  // what is left goes to the sentences
    if (table.columns[p.column].kind != Kind::prose) continue;
    p.width = 0;
    p.width = std::min(natural_width(table, p.column), width - std::min(width, sum_of(places)));
  }
  return places;
}

/// "predictive-repl..rpretation".
std::string shortened(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  const std::size_t head = (width - 2 + 1) / 2, tail = width - 2 - head;
  return text.substr(0, head) + ".." + text.substr(text.size() - tail);
}

std::vector<std::string> words_in_lines(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find_first_not_of(' ', begin);  // blanks stay with the word behind them
    end = std::min(text.find(' ', std::min(end, text.size())), text.size());
    std::string word = text.substr(begin, end - begin);
    if (!lines.back().empty() && lines.back().size() + word.size() > width) {
      lines.emplace_back();
      word.erase(0, word.find_first_not_of(' '));
    }
    lines.back() += word;
    begin = end;
  }
  return lines;
}

std::string row_text(const Table& table, const std::vector<Place>& places,
                     const std::vector<std::string>& row) {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (const Place& p : places) {
    const std::string text = p.column < row.size() ? row[p.column] : "";
    const bool prose = table.columns[p.column].kind == Kind::prose;
    cells.push_back(prose ? words_in_lines(text, p.width)
                          : std::vector<std::string>{shortened(text, p.width)});
    height = std::max(height, cells.back().size());
  }
  std::string lines;
  for (std::size_t h = 0; h < height; ++h) {
    std::string line;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::string& cell = h < cells[i].size() ? cells[i][h] : "";
      const bool right = table.columns[places[i].column].kind == Kind::figure;
      line += right ? fmt::format("{:>{}}", cell, places[i].width)
                    : fmt::format("{:<{}}", cell, places[i].width);
      line += std::string(gap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines += line + "\n";
  }
  return lines;
}

std::string block_text(const Table& table, const std::vector<Place>& places, bool color) {
  std::vector<std::string> names;
  for (const TableColumn& c : table.columns) names.push_back(c.name);
  std::string head = row_text(table, places, names);
  if (color) {
    head.pop_back();
    head = fmt::format(fmt::emphasis::bold, "{}", head) + "\n";
  }
  for (const auto& row : table.rows) {
    std::vector<std::string> texts;
    for (const Cell& cell : row) texts.push_back(cell.text);
    head += row_text(table, places, texts);
  }
  return head;
}

int blocks_of(const Table& table) {
  int blocks = 1;
  for (const TableColumn& c : table.columns) blocks = std::max(blocks, c.block + 1);
  return blocks;
}

}  // namespace

std::string laid_out(const Table& table, const TableLayout& layout,
                     std::vector<std::string>& left_out) {
  std::string text;
  for (int block = 0; block < blocks_of(table); ++block) {
    const bool something = std::ranges::any_of(table.columns, [&](const TableColumn& c) {
      return c.kind != Kind::key && c.block == block && c.telling;
    });
    if (!something && blocks_of(table) > 1) continue;
    std::vector<std::string> out_of_block;
    const auto places =
        places_of(table, block, static_cast<std::size_t>(layout.width), out_of_block);
    left_out.insert(left_out.end(), out_of_block.begin(), out_of_block.end());
    if (!text.empty()) text += "\n";
    const auto b = static_cast<std::size_t>(block);
    const std::string title = b < table.titles.size() ? table.titles[b] : "";
    if (!title.empty()) text += wrapped_lines(title + "\n", layout.width);
    text += block_text(table, places, layout.color);
  }
  return text;
}

std::string wrapped_lines(const std::string& text, int width) {
  if (width == 0) return text;
  std::string wrapped;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string indent = line.starts_with("# ") ? "#   " : "  ";
    const auto room = static_cast<std::size_t>(width) - indent.size();
    if (line.size() <= static_cast<std::size_t>(width)) {
      wrapped += line + "\n";
      continue;
    }
    const auto lines = words_in_lines(line, room);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      wrapped += (i == 0 ? "" : indent) + lines[i] + "\n";
    }
  }
  return wrapped;
}

}  // namespace moesim
