// Rows in columns, three spaces apart, as kubectl sets them.
//
// Rows are held until Flush, because a column is as wide as its widest cell. Widths only grow, so
// that rows that come later (a watch) stay in line. Cells are one line each and Printable.
//
//   TableWriter table({"NAME", "AGE"});
//   table.Add({"web-0", "3d"});
//   table.Flush(Stdout());
#pragma once

#include <string>
#include <vector>

#include "tools/output.h"

namespace larder::tools {

class TableWriter {
 public:
  // An empty header prints none.
  explicit TableWriter(std::vector<std::string> header);

  void Add(std::vector<std::string> row);
  // Columns of numbers are set right.
  void AlignRight(size_t column);
  size_t rows() const { return rows_.size(); }
  // False: the reader is gone.
  bool Flush(Output& out);
  // The same as text.
  std::string Take();

 private:
  std::string Line(const std::vector<std::string>& row) const;
  void Widen(const std::vector<std::string>& row);

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
  std::vector<bool> right_;
};

// How many columns of a terminal a text takes: UTF-8 characters, not bytes.
size_t DisplayWidth(std::string_view text);

}  // namespace larder::tools
