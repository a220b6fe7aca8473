// table.h: rows of text in columns.
#pragma once
#include <string>
#include <vector>

namespace mesh {

/// A line a row, cells filled up to their column's width and two spaces apart. A cell that is the last of its row is
/// not filled, and makes its column no wider where the row is shorter than the first one.
std::string in_columns(const std::vector<std::vector<std::string>>& rows);

}  // namespace mesh
