// buffer_names.h: what buffers may be called: the names of stored tensors, and names that no buffer has yet.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "codegen/program/program.h"

namespace mesh {

class StoredNames {
 public:
  /// The graph outlives this.
  explicit StoredNames(const Graph&);
  /// What the buffer of a stored tensor wishes to be called. "layer.attn.wq" is called "wq", or "attn_wq" if another
  /// tensor has that name; its moment "wq_moment1". What the optimizer keeps of no parameter has its whole path,
  /// "loss_scale".
  std::string of(StoredId) const;
  std::optional<StoredId> with_path(std::string_view) const;

 private:
  const Graph& graph_;
  std::unordered_map<std::string_view, StoredId> by_path_;
  std::unordered_map<std::string_view, int> paths_;  // by their last part: how many, but for the optimizer's
};

/// The part behind the last point.
std::string_view last_part(std::string_view path);

class BufferNames {
 public:
  /// The program outlives this, and drops none of its buffers meanwhile.
  explicit BufferNames(const Program& program) : program_(program) {}
  /// The wish, or with the least number behind it that no buffer has. It is taken then.
  std::string unique(const std::string& wish);
  /// No buffer has the name any more.
  void free(const std::string& name);

 private:
  const Program& program_;
  size_t known_ = 0;  // how many of its buffers' names are taken
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, size_t> least_;  // by wish: no smaller number is free
};

}  // namespace mesh
