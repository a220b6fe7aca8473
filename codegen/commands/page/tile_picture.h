// tile_picture.h: which rank holds what, as a small picture and as a table.
#pragma once
#include <map>
#include <string>

#include "codegen/layout/placement.h"

namespace mesh::page {

/// Pictures of values that lie alike are drawn once.
class TilePictures {
 public:
  std::string picture(const Graph&, const MeshShape&, const ValueType&, const Placement&);
  /// What the pictures refer to, once for the page.
  std::string definitions() const;

 private:
  std::map<std::string, size_t> number_;  // by what is drawn
  std::string drawn_;
};

/// "" for what is whole.
std::string table_of_tiles(const Graph&, const MeshShape&, const ValueType&, const Placement&);

}  // namespace mesh::page
