// nest.h: a loop nest bound to one rank. Every pass is executed a row of its innermost dim at a time, a row
// in chunks, a chunk one scalar computation after another over all its elements: the order in which each element, each
// lane of a reduction and each accumulated sum is computed is that of the emitted loop.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "codegen/interpret/binding.h"
#include "codegen/interpret/bound.h"
#include "codegen/interpret/functions.h"
#include "meshrt/sample_key.h"

namespace mesh {

/// A dim of several that is walked along only so far.
struct BoundDim {
  size_t at;
  BoundExtent extent;
};
/// Advances an index in row-major order; false after the last.
bool next_index(std::vector<int64_t>& index, std::span<const int64_t> extents);
inline int64_t bytes_of(Type type) { return static_cast<int64_t>(meshrt::size_of(type)); }

/// Of these dims, those that the nest bounds.
std::vector<BoundDim> bounds_among(const Binding&, const Nest&, std::span<const LocalDim>);

/// A pass over the inner dims at one iteration of the outer dims.
class BoundPass {
 public:
  /// `outer` and `inner` are the dims iterated; a row value of the nest is 8 bytes at rows + 8 * its number.
  BoundPass(Binding&, const Nest&, const Pass&, std::span<const LocalDim> outer, std::span<const LocalDim> inner,
            std::byte* rows);
  /// Takes up the turns and this step's numbers: before the first iteration of a nest.
  void begin();
  void run(std::span<const int64_t> outer_index);

 private:
  // How often a value changes: once a run of the nest, once a row of the innermost dim, with every element.
  enum class Pace : uint8_t { nest, row, element };
  // An access under way. Strides are bytes, by outer then inner dim.
  struct Cursor {
    Window window;
    std::byte* start = nullptr;            // at these turns, all indices 0
    std::byte* row = nullptr;              // at the beginning of this row; null where it is missing
    int64_t step = 0;                      // elements from one index of the innermost dim to the next
    const Window::Guard* along = nullptr;  // along the innermost dim
  };
  struct Instruction {
    enum class Kind : uint8_t { load, literal, index, turn, step_number, rate, random, apply, row } kind;
    Pace pace;
    Type type;
    std::byte* result;                 // room for a chunk
    const std::byte* values;           // this chunk's elements: `result`, or the buffer itself
    int cursor = -1;                   // load
    bool in_place = false;             // load: read from the buffer, no copy
    ChunkMove move = nullptr;          // load, and to repeat a value over a chunk
    double literal = 0;                // literal
    int dim = -1;                      // index: outer dims, then inner
    int64_t first = 0;                 // index: global index of local 0
    std::vector<int64_t> places = {};  // index: of a dim that is not held in order, the global indices
    uint32_t loop = 0;                 // turn
    const Scalar::Random* random = nullptr;
    struct Along {
      int dim;
      int64_t apart;                // elements that lie so far apart along it
      std::vector<int64_t> places;  // as above; empty where it is held in order
      int64_t elements(int64_t index) const {
        return (places.empty() ? index : places[static_cast<size_t>(index)]) * apart;
      }
    };
    std::vector<Along> steps = {};                         // random: its dims
    std::vector<std::pair<uint32_t, int64_t>> turns = {};  // the same of loops that count elements
    int64_t begin = 0, row_begin = 0;                      // random: element of local 0 in this run, and in this row
    meshrt::RandomKey key{0, ""};
    std::optional<meshrt::SampleKey> samples = {};  // random: where numbers go by samples' places in the set
    ChunkDraw draw = nullptr;
    const RateOp* rate_of = nullptr;
    int row = -1;
    ChunkFunction function = nullptr;
    std::array<int, 3> operands{-1, -1, -1};
  };
  struct Output {  // a store or an accumulation
    int scalar;
    int cursor;
    ChunkMove move = nullptr;
    ChunkAccumulate accumulate = nullptr;
  };
  struct Fold {  // a reduction
    int scalar;
    std::byte* row;
    int64_t bytes = 0;  // of the row value
    ChunkReduction reduction{};
    ChunkArgFold arg{};
    std::byte* lanes = nullptr;   // of the block under way, where the pass is reduced in blocks
    std::byte* joined = nullptr;  // of those before it
    ArgFold found{};
    int32_t begin = 0;  // global index of local 0
  };

  void add(Binding&, const Scalar&, const std::vector<Type>& row_types);
  int add_cursor(Binding&, const Access&, std::span<const LocalDim> dims, Type);
  void add_outputs(Binding&, const Pass&, std::span<const LocalDim> dims);
  void merge_dims();
  void read_in_place();
  void evaluate(Instruction&, int64_t first, int64_t count);
  void load(Instruction&, int64_t first, int64_t count) const;
  void begin_row(Cursor&, std::span<const int64_t> outer_index) const;
  void begin_draw(Instruction&);
  void repeat(Instruction&, int64_t count);
  void run_row(std::span<const int64_t> outer_index);
  void begin_piece();
  void end_block();

  Binding& binding_;
  size_t outer_;                    // number of outer dims
  int64_t chunk_ = chunk_elements;  // elements at a time; 1 where a load reads what was stored for the one before
  bool once_ = false;               // no inner dims: what is reduced is one value, which stays as it is
  std::vector<int64_t> extents_;    // of the inner dims; at least one
  std::vector<BoundDim> bounds_;    // of extents_
  std::vector<int64_t> index_;      // of the inner dims but the last
  std::vector<bool> asked_;         // of all dims: whether an index of it is a value
  std::vector<Cursor> cursors_;
  std::vector<Instruction> instructions_;
  std::vector<Output> outputs_;
  std::vector<Fold> folds_;
  bool in_blocks_;  // meshrt/shared_reduction.h
  int64_t piece_ = 0, pieces_of_block_ = 1;
  std::byte* rows_;
  std::vector<std::unique_ptr<std::byte[]>> registers_;
  std::vector<LocalDim> dims_;  // outer, then inner, before merging
};

class BoundNest {
 public:
  BoundNest(Binding&, const Nest&);
  void run();

 private:
  struct Filled {  // what accumulations begin from
    Pointer to;
    int64_t elements;
    ChunkMove move;
    std::array<std::byte, 8> value;
  };

  Binding& binding_;
  std::vector<int64_t> extents_, index_;  // of the outer dims
  std::vector<BoundDim> bounds_;          // of extents_
  std::vector<Filled> fills_;
  std::vector<BoundPass> passes_;
  std::unique_ptr<std::byte[]> rows_;
};

}  // namespace mesh
