// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/print_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "sim/print/terminal.h"

namespace moesim {

void PrintFlags::add_to(CommandLine& command) {
  const auto keep = [this](const std::string& name) {
    if (std::ranges::find(print_format_names, name) == print_format_names.end()) {
      throw Error(fmt::format("--format: '{}' is not known", name),
                  did_you_mean(name, print_format_names));
    }
    format_ = name;
  };
  command.group("Output");
  command.add_option("--format", keep,
                     "table (default), csv, json or markdown; csv and json have unrounded numbers "
                     "in SI units");
  command
      .add_option("--columns", columns_,
                  "only these columns, in this order: a,b; write dashes for spaces in names")
      .separated_by(',')
      .one_value_each();
  command.add_flag("--wide", wide_, "all columns, however narrow the terminal");
  command.add_option("--sort", sort_, "sorts rows by this column; -COLUMN: the largest first");
  add_quiet(command);
  command.group("Options");
}

PrintStyle PrintFlags::style_for(std::FILE* stream) const {
  PrintStyle style;
  const auto at = std::ranges::find(print_format_names, format_) - print_format_names.begin();
  style.format = static_cast<PrintFormat>(at);
  style.width = wide_ ? 0 : terminal_width(stream);
  if (style.width == 0 && !wide_) style.width = width_of_pipe_;
  style.color = takes_color(stream);
  style.hint = !is_quiet();
  return style;
}

void PrintFlags::print(const Printout& printout, std::FILE* stream) const {
  PrintStyle style = style_for(stream);
  const auto put = [&] {
    const Rendered rendered = render(printout, style);
    if (!rendered.beside.empty()) fmt::print(stderr, "{}", rendered.beside);
    fmt::print(stream, "{}", rendered.text);
  };
  style.columns = columns_;
  style.sort = sort_;
  try {
    put();
  } catch (const Error&) {  // a misspelt column does not lose results of minutes
    style = style_for(stream);
    put();
    throw;
  }
}

void PrintFlags::check(const Printout& heads) const {
  PrintStyle style;
  style.columns = columns_;
  style.sort = sort_;
  require_columns(heads, style);
}

void PrintFlags::print_for_people(const Printout& printout) {
  width_of_pipe_ = 80;
  print(printout);
}

void add_quiet(CommandLine& command) {
  command.add_flag("-q,--quiet", be_quiet, "no progress and no hints");
}

void ResultOutput::add_to(CommandLine& command, const std::string& what) {
  command.group("Output");
  file_.add_to(command, "--json", what);
  print_.add_to(command);
}

void ResultOutput::add_page(CommandLine& command, const std::string& names, const std::string& what,
                            std::function<std::string(const std::string& document)> make) {
  command.group("Output");
  page_.add_to(command, names, what);
  command.group("Options");
  make_page_ = std::move(make);
}

void ResultOutput::write(const std::function<std::string()>& document, const Printout& printout,
                         const std::function<std::string()>& of_page) const {
  const bool page_of_same = page_.asked() && !of_page;
  const bool wanted = file_.asked() || page_of_same || print_.json();
  const std::string text = wanted ? document() : "";
  file_.write(text);
  if (page_.asked()) page_.write(make_page_(page_of_same ? text : of_page()));
  if (print_.json()) {
    if (!file_.printed()) fmt::print("{}", text);
  } else {
    print_.print(printout, file_.beside() == stderr ? stderr : page_.beside());
  }
}

}  // namespace moesim
