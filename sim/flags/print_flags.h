// SPDX-License-Identifier: Apache-2.0
// How a command prints its tables: --format, --columns, --wide, --sort, --quiet.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "sim/flags/command_line.h"
#include "sim/flags/output_file.h"
#include "sim/print/render.h"

namespace moesim {

/// Adds --quiet, for the whole process.
void add_quiet(CommandLine& command);

/// The flags of a command that prints tables; the command must not outlive it.
class PrintFlags {
 public:
  void add_to(CommandLine& command);

  /// For `stream`: on a terminal as wide as it is, else with all columns. Lines that do not fit the
  /// format go to standard error. Throws Error for an unknown column once all of it is printed.
  void print(const Printout& printout, std::FILE* stream = stdout) const;
  /// The same, for tables of names and sentences: in a pipe of 80 columns, as they are for people.
  void print_for_people(const Printout& printout);
  /// Throws Error for a column that none of these tables has, before work is done for them.
  void check(const Printout& heads) const;
  bool json() const { return format_ == "json"; }

 private:
  PrintStyle style_for(std::FILE* stream) const;

  std::string format_ = "table", sort_;
  std::vector<std::string> columns_;
  bool wide_ = false;
  int width_of_pipe_ = 0;  // 0: all columns
};

/// A command's result: a document for programs (--json FILE, --format json) and a printout.
class ResultOutput {
 public:
  void add_to(CommandLine& command, const std::string& what);
  /// One more file, made of the document.
  void add_page(CommandLine& command, const std::string& names, const std::string& what,
                std::function<std::string(const std::string& document)> make);
  /// `document` is asked for if it is wanted, as is `of_page`, if the page is made of another.
  void write(const std::function<std::string()>& document, const Printout& printout,
             const std::function<std::string()>& of_page = nullptr) const;
  void check_columns(const Printout& heads) const { print_.check(heads); }
  bool page_asked() const { return page_.asked(); }

 private:
  OutputFile file_, page_;
  std::function<std::string(const std::string& document)> make_page_;
  PrintFlags print_;
};

}  // namespace moesim
