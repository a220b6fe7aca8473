// outline.h: loop nests that differ only in the tensors they work on (the updates of all parameters, the sums of their
// gradients' squares) are written once, as a function of the tensors, and called.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/emit_functions.h"

namespace mesh {

class Outline {
 public:
  /// Where a nest is made stretch by stretch (meshrt::Updated): the storages of what it reads and writes there, and the
  /// name of the stretch.
  struct Stretch {
    std::optional<BufferId> sum;
    BufferId next;
    std::string name;
  };

  /// Counts the nests of all routines.
  Outline(EmitContext&, FunctionTable&);
  /// The call of the function for this nest; nothing where the nest is the only one of its kind.
  std::optional<std::string> call(const Nest&);
  /// The call of the function for a stretch of it.
  std::string call(const Nest&, const Stretch&);

 private:
  // What differs between nests of one kind, in the order in which the nest names it.
  struct Shape {
    std::string key;                // equal for nests that one function serves
    std::vector<BufferId> tensors;  // storages of arguments
    std::vector<Access> slots;      // which of each
    std::vector<bool> written;
    std::vector<LocalDim> dims;  // of every tensor, or its slot
    bool reduces = false;        // over all dims
    // Tensors of which the nest sees a slice: they hold more of the dim at `slice` than the nest walks over.
    std::vector<bool> sliced;
    int slice = -1;
    bool rows() const { return slice >= 0 || (reduces && dims.size() > 1); }
    size_t first_column() const { return slice >= 0 ? static_cast<size_t>(slice) : reduces ? dims.size() - 1 : 0; }
  };
  struct Function {
    int uses = 0;
    const Nest* widest = nullptr;  // the one with most dims, of which the function is written
    std::string name;              // once it is written
    std::vector<size_t> order;     // of its arguments: positions in Shape::tensors
    std::optional<size_t> result;  // what it returns
    bool rows = false;             // it walks over rows and columns, not over all as one
  };

  std::optional<Shape> shape_of(const Nest&) const;
  void count(const Nest&, int uses);
  std::string call(const Shape&, Function&, const Stretch*);
  void write(const Nest&, const Shape&, Function&);
  bool add_slice(Shape&, const Buffer&) const;
  std::string argument(const Shape&, size_t tensor, const Stretch*) const;
  std::string parameter_name(BufferId) const;
  std::string update_name(StoredId parameter) const;
  std::string function_name(const Nest&, const Shape&) const;

  EmitContext& context_;
  FunctionTable& table_;
  std::map<std::string, Function> functions_;  // by key
};

}  // namespace mesh
