#include "tools/table_writer.h"

#include <algorithm>

namespace larder::tools {
namespace {

constexpr size_t kGap = 3;
// kubectl's columns are never narrower.
constexpr size_t kNarrowest = 6;

}  // namespace

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

TableWriter::TableWriter(std::vector<std::string> header) : header_(std::move(header)) {
  for (std::string& name : header_) name = Printable(std::move(name));
  Widen(header_);
}

void TableWriter::AlignRight(size_t column) {
  if (right_.size() <= column) right_.resize(column + 1);
  right_[column] = true;
}

void TableWriter::Widen(const std::vector<std::string>& row) {
  if (widths_.size() < row.size()) widths_.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    widths_[i] = std::max(widths_[i], DisplayWidth(row[i]));
  }
}

void TableWriter::Add(std::vector<std::string> row) {
  // A cell is one line: what an object says must not break the table.
  for (std::string& cell : row) cell = Printable(std::move(cell), Lines::kOne);
  Widen(row);
  rows_.push_back(std::move(row));
}

std::string TableWriter::Line(const std::vector<std::string>& row) const {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    const size_t space = widths_[i] - DisplayWidth(row[i]);
    const bool right = i < right_.size() && right_[i];
    if (right) line.append(space, ' ');
    line += row[i];
    if (i + 1 == row.size()) break;
    const size_t width = std::max(widths_[i] + kGap, kNarrowest);
    line.append(right ? kGap : width - DisplayWidth(row[i]), ' ');
  }
  return line + "\n";
}

std::string TableWriter::Take() {
  std::string out = header_.empty() ? "" : Line(header_);
  for (const auto& row : rows_) out += Line(row);
  header_.clear();
  rows_.clear();
  return out;
}

bool TableWriter::Flush(Output& out) {
  if (!header_.empty()) out.Write(Line(header_));
  header_.clear();
  for (const auto& row : rows_) {
    if (!out.Write(Line(row))) break;
  }
  rows_.clear();
  return !out.closed();
}

}  // namespace larder::tools
