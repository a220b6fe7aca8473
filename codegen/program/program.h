// program.h: what one rank executes, step by step, in one list for all ranks: buffers with planned addresses, and three
// kinds of step: calls of the runtime (products, attention, lookups, collectives), loop nests (everything elementwise
// and every reduction), and control, which has steps as its body (`for` over a repeat, a branch on the rank's
// coordinates). The interpreter runs it, the emitter writes it down as C++.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/layout/sharded_graph.h"
#include "codegen/schedule/schedule.h"
#include "meshrt/rank_memory.h"

namespace mesh {

using BufferId = Id<struct BufferTag>;
using LoopId = Id<struct LoopTag>;  // a `for` that is being executed; its turn is an index into stacked buffers

/// A dim as a rank holds it. Where parts are uneven the local extent differs by rank and is a run-time constant.
struct LocalDim {
  DimId dim;
  DimPlacement placement;
  bool operator==(const LocalDim&) const = default;
};

enum class BufferKind : uint8_t { input, parameter, optimizer, state, cache, gradient, activation, workspace, result };
const char* name_of(BufferKind);
/// arena: peers read or write it (what collectives touch). own: this rank alone.
enum class Space : uint8_t { arena, own };

/// A local array: row-major and contiguous over `dims` in this order (loop dims of stacked buffers first), with this
/// rank's local extents: what collectives and the runtime's Tensor expect. Offsets leave room for the largest local
/// extents and are equal on all ranks; a stride is constexpr where the dims after it are even, else a constant of the
/// rank (program/extent.h). A scalar has no dims.
struct Buffer {
  std::string name;  // from the spec: "wq", "d_h", "score"; unique in the program
  std::string path;  // "layer.attn.wq", for messages
  Type type;
  std::vector<LocalDim> dims;
  BufferKind kind;
  Space space = Space::own;
  StoredId stored;       // set for inputs, parameters, optimizer state, state
  BufferId view_of;      // set: no memory of its own but the same elements in the same order as that buffer, which has
                         // its own memory, under other dims (renamed, split, merged); offset, space and kind are equal
  int64_t elements = 0;  // of the largest rank
  int64_t offset = -1;   // bytes within its space; set by the memory plan
  Span span;
};

/// Which slot of a buffer's dim, a leading one mostly, a step uses. Without a period the dim is the loop's and each
/// turn has a slot: a place among those of its rank where the dim is split, which only that rank uses. With one the dim
/// is a ring of `period` slots: what only the next turns need again (the values of the last turns, a pair of which one
/// is filled while the other is read).
struct TurnIndex {
  LoopId loop;         // unset: always slot `offset`
  int64_t offset = 0;  // added to the turn; not negative
  int64_t period = 0;  // 0: none
  TurnIndex(LoopId of, int64_t from = 0, int64_t every = 0) : loop(of), offset(from), period(every) {}
  int64_t slot(int64_t turn) const { return period == 0 ? turn + offset : (turn + offset) % period; }
  bool operator==(const TurnIndex&) const = default;
};

/// How a loop nest walks along a dim of a buffer over which it does not iterate as it lies: a slice, a neighbour, what
/// stands among padding. At global index i of the nest's dim `along` it is at element (begin + step * i) / every.
struct IndexMap {
  size_t position;  // of the buffer's dims, turns included
  DimId along;      // unset: always at element `begin`
  int64_t begin = 0, step = 1, every = 1;
  /// What a load gives where the division leaves a remainder or this rank does not hold the element. Unset: it is
  /// always there.
  std::optional<double> outside;
  /// Set: at the slot of this loop's turn, as leading dims are by `Access::turns`; `along` is unset then.
  LoopId turn = {};
  bool operator==(const IndexMap&) const = default;
};

/// A buffer as a step sees it: stacked buffers are indexed by loops in their leading dims; what remains are `dims` of
/// the access, which the step matches with its own dims by name: a buffer's dim never has another name than the step's
/// (a view has the names that its readers use). Loop nests may walk along some of them otherwise.
struct Access {
  BufferId buffer;
  std::vector<TurnIndex> turns;     // one for each leading dim that a loop fixes
  std::vector<IndexMap> maps = {};  // in order of position
  bool operator==(const Access&) const = default;
  /// Whether it is the buffer as it lies: no turn of it, no index that is worked out.
  bool is_plain() const { return turns.empty() && maps.empty(); }
};

/// How far a step goes along a dim, which is known when it is executed: to the global index that `last` says, a number
/// in i32, of what the rank holds of the dim. The elements behind are not read and keep what they are (bound.h).
struct LoopBound {
  LocalDim along;
  Access last;
};

// ---- loop nests
// ---------------------------------------------------------------------------------------------------------

/// A scalar computation in SSA form. Operands index earlier entries of the same list.
struct Scalar {
  struct Load {
    Access access;
  };  // element at this iteration's indices. Where the nest iterates over a smaller part of a dim than the buffer holds
      // (a slice of a whole value), the address is shifted: see extent.h
  struct Literal {
    double value;
    std::vector<DimId> counts = {};  // the dims whose sizes' product it is, for the reader; none: a number of its own
  };
  struct Index {
    DimId dim;
  };  // global index along a dim of the nest (i32): of blocks the local index + the part's beginning
  struct Turn {
    LoopId loop;
  };                     // i32
  struct StepNumber {};  // f64
  struct Rate {
    RateOp rate;
  };  // f64
  struct Random {
    Distribution distribution;
    std::string path;
    struct Counted {
      DimId dim;                   // as the nest names it
      std::optional<LoopId> turn;  // set: its index is a loop's turn
      bool operator==(const Counted&) const = default;
    };
    struct Term {
      LoopId loop;
      int64_t times = 1;
      bool operator==(const Term&) const = default;
    };
    std::vector<Counted> dims;             // their order counts the elements
    std::vector<std::vector<Term>> turns;  // of the loops around it, outermost first; each may be counted by several
    int64_t of_sample = 0;                 // RandomOp::of_sample
    bool operator==(const Random&) const = default;
  };
  struct Apply {
    MapFunction function;
    std::vector<int> operands;
  };
  struct Row {
    int row;
  };  // this nest's row value `row` (Nest::rows) at this outer iteration
  std::variant<Load, Literal, Index, Turn, StepNumber, Rate, Random, Apply, Row> what;
  Type type;
};

/// One pass over `inner` for each iteration of the nest's outer dims. An iteration computes all of its scalars before
/// it stores anything: a pass may load and store the same element, and two stores may exchange two elements.
struct Pass {
  std::vector<LocalDim> inner;  // outermost first; empty: once
  std::vector<Scalar> scalars;
  struct Store {
    int scalar;
    Access to;
  };  // to[outer, inner indices] = scalar
  /// row value = reduction of a scalar over `inner`, in 16 lanes (meshrt/lanes.h): available to later passes at this
  /// outer iteration. Where `inner` is empty the row value is the scalar itself. Without outer dims in blocks
  /// (reduces_in_blocks). `arg`: the smallest global index along
  /// the only inner dim at which the scalar is largest (Reduce::max) or smallest (Reduce::min).
  struct Reduction {
    int scalar;
    Reduce reduce;
    int row;
    bool arg = false;
  };
  /// to[indices] (+)= scalar, in order of iteration: for reductions over outer dims. The buffer lacks some of the
  /// nest's dims, may lack some of the inner ones, and no other pass of the nest touches it. The first contribution
  /// overwrites: the nest fills the buffer with the reduction's neutral value before it starts, unless `adds` to what
  /// is there.
  struct Accumulate {
    int scalar;
    Reduce reduce;
    Access to;
    bool adds = false;
  };
  std::vector<Store> stores;
  std::vector<Reduction> reductions;
  std::vector<Accumulate> accumulates;
};

/// for outer: for each pass in order: for inner: ... Reductions of earlier passes are scalars in later ones.
struct Nest {
  std::vector<LocalDim> outer;
  std::vector<Pass> passes;
  std::vector<Type> rows;  // types of row values
  std::vector<LoopBound> bounds = {};
};

// ---- calls
// ----------------------------------------------------------------------------------------------------------------

/// c[batch.., rows.., cols..] (+)= sum over inner of a * b. Each list holds dims by name as they stand in a, b and c;
/// strides follow from the buffers. Dims of rows, inner and cols are neighbours in memory in this order in every matrix
/// that has them, so one stride walks over each list, and columns lie next to each other in c. Each dim in `batch`, the
/// first outermost, is a loop around the product: it is in c and in a or b or both (a missing one has stride 0).
struct ProductStep {
  Access a, b, c;
  std::vector<DimId> batch, rows, inner, cols;
  bool accumulate = false;
  bool rounds_b = false;  // b is f32, and taken as the bf16 that it rounds to; a is bf16
  /// While the tile is in registers, in this order: + bias[cols], activation (value to c, derivative to slope), *
  /// times, + plus, and what it is then in bf16 to rounded. bias has the dims of cols (and of those batch dims that b
  /// has and a lacks); the others lie like c and elsewhere (adding to c is `accumulate`). activation is relu, gelu,
  /// gelu_tanh or silu.
  struct Epilogue {
    std::optional<Access> bias, slope, times, plus, rounded;
    std::optional<MapFunction> activation;
    bool rounded_alone = false;  // no step reads c: its memory is for sums that are not whole yet

    /// use(access) of what lies like the result, element for element.
    template <class Use>
    void for_each_like_result(const Use& use) const {
      for (const std::optional<Access>* one : {&slope, &times, &plus, &rounded})
        if (*one) use(**one);
    }
  } epilogue;
  std::optional<Access> column_sum;    // [cols] = sum of b over inner (+= where `accumulate`): bias gradients
  std::vector<LoopBound> bounds = {};  // each along the first dim of one of the lists, or one of `batch`
};

struct AttentionStep {  // see AttentionOp; dims by name in the buffers
  AttentionOp op;
  Access q, k, v, out, log_sum;
  std::vector<DimId> batch;
  bool backward = false;
  Access d_out, d_q, d_k, d_v;
  /// Keys and values are split over these axes, as the queries are: each rank hands on part after part to the next one
  /// that meets it, while it works on it. Places for parts, which lie as k, v, d_k and d_v do.
  struct Ring {
    std::vector<AxisId> axes;
    std::array<Access, 2> k, v;      // the part at hand, but for the rank's own, and the one that arrives
    std::array<Access, 3> d_k, d_v;  // of backward: what this rank adds to a part, what came, what is handed on
    std::vector<uint32_t> steps;     // into ShardedGraph::steps: of k, of v; of d_k, of d_v
    std::vector<int64_t> meets;      // as DimPlacement::meets
  };
  std::optional<Ring> ring = {};
};

struct TakeStep {
  Access table, ids, out;
  DimId dim;
};  // rows outside this rank's part give 0
struct ScatterStep {
  Access ids, rows, table;
  DimId dim;
  Reduce reduce = Reduce::sum;
  bool adds = false;  // to what the table holds; else it starts from the reduction's neutral value
};  // In both, dims that table and ids share are loops around the lookup: of the ids they come first, and in the table
    // none stands behind another dim than the looked up one and those before that

struct StepDefinition;
/// A step that passes know by its definition alone (program/step.h). What its accesses, dims and numbers mean its own
/// file knows (codegen/ops/). It writes all elements of what it writes.
struct DefinedStep {
  const StepDefinition* definition;
  std::vector<Access> reads, writes;
  std::vector<DimId> dims;
  std::vector<int64_t> numbers;
};

/// A broadcast has its operand at one coordinate of its axis, a reduce its result (`at`).
/// A halo of a dim fills its margins in place, from the neighbours' parts and by the margin's edge; without axes, from
/// the rank's own elements.
struct CollectiveStep {
  CollectiveKind kind;
  Access from, to;                      // equal for all_reduce and halo
  std::vector<AxisId> axes, to_axes;    // as in ReshardStep
  int from_dim = -1, to_dim = -1;       // positions in the dims of the access (after turns)
  std::vector<LocalDim> before, after;  // dims of the value on both sides, as positions refer to
  Reduce reduce = Reduce::sum;
  Where at = {};
  uint32_t step;  // index into ShardedGraph::steps: bytes, reason
  enum class Phase : uint8_t { whole, start, wait } phase = Phase::whole;  // see overlap.h
  /// Set: it starts or waits for what another turn of the loop around it moves: that turn's number is `away` more, +1
  /// or -1. Where the loop has no such turn nothing is done.
  struct OtherTurn {
    LoopId loop;
    int away;
    bool operator==(const OtherTurn&) const = default;
  };
  std::optional<OtherTurn> other_turn = {};
  /// Set: only the last turn of this loop around it makes it.
  LoopId last_turn = {};
};

/// Several collectives that differ only in what they move (kind, axes, reduce, element type and phase are equal), made
/// in one call.
struct CombinedStep {
  std::vector<CollectiveStep> collectives;
};

/// to = from, element by element where both own it, for layouts in memory that differ (transposes, slices of a whole
/// value).
struct CopyStep {
  Access from, to;
};
struct FillStep {
  Access to;
  double value;
};

/// What one stage of a pipeline gives to the next one, or, where it goes `down`, to the one before: each rank sends to
/// the neighbour on the axis, and one that has none there, or not among these stages, does nothing. The value lies
/// alike on both, in the arena. It says from when on the value may be read, or is not written any more, within the
/// action (verify_pipelines.h); when it travels the rank's list says (ForStep::order).
struct MessageStep {
  Access value;
  AxisId axis;
  bool down;   // from later stages to earlier ones
  bool sends;  // else it receives
  StageRange among;
};

// ---- control
// --------------------------------------------------------------------------------------------------------------

struct Step;
using Steps = std::vector<Step>;

/// The last step of a loop's body: no further turn is made where `done` holds, on all ranks alike.
struct UntilStep {
  Access done;
};

/// In which order the stages of a pipeline over an axis make their actions, each of one turn.
struct PipelineOrder {
  AxisId axis;
  PipelineSchedule schedule;  // lists of F, B and their messages, by coordinate
  int32_t slots = 1;          // of what a stage is given and hands on, at least: micro-batch k has slot k % slots
  DimId ring = {};            // of the slots that most accesses have (pipeline_slots.h)
  /// Where a coordinate has several stages: what stands for the one under way, as a turn of a loop over `stages`.
  LoopId stage = {};
  LocalDim stages = {};
};

/// What one turn of a loop executes.
struct ForStep {
  LoopId loop;
  DimId dim;
  int64_t turns;
  bool reverse = false;
  Steps body;
  /// Set: a rank makes only those turns that it owns of the dim, which lies so, in blocks.
  std::optional<DimPlacement> own = {};
  /// Set: of these only those of the stage under way (PipelineOrder::stage), which `turns_of_stages` says.
  LoopId stage = {};
  /// Set: the body is ActionSteps, which each rank executes as its list says. What a turn's F leaves to its B, or is
  /// sent, lies in a ring of slots, of which there are as many as turns that need it at a time (pipeline_slots.h).
  std::optional<PipelineOrder> order = {};
  /// Only the first or the last turn of the loop with this number is made: what its other turns take over, or leave.
  enum class Only : uint8_t { every, first, last } only = Only::every;
  std::array<Steps*, 1> bodies() { return {&body}; }
  /// How many turns are made of a loop that all ranks make alike.
  int64_t made() const { return only == Only::every ? turns : 1; }
  /// The turn before all others, or behind them.
  int64_t first_turn() const { return reverse ? turns - 1 : 0; }
  int64_t last_turn() const { return reverse ? 0 : turns - 1; }
};

/// Which of a rank's several stages, in their order, is under way.
struct StageUnderWay {
  LoopId stage;  // PipelineOrder::stage
  int32_t number;
  bool operator==(const StageUnderWay&) const = default;
};

/// What only some ranks execute: those that have one of its coordinates on every axis of `at`. The others go on with
/// the next step. What the body writes has no value on the others, and collectives in it have groups that are wholly
/// within it (program/branches.h).
struct BranchStep {
  std::vector<Where> at;  // sorted by axis, each with its coordinates in order, or at a turn's owner; at least one axis
  Steps body;
  std::optional<StageUnderWay> stage = {};  // set: and only in the actions of that one; `at` may be empty then
  std::array<Steps*, 1> bodies() { return {&body}; }
};

/// What a stage does of one micro-batch in one action: F or B; where weights' gradients have a time of their own F, I
/// or W, and a B in a list is I, then W; R where what the gradients need is computed again.
struct ActionStep {
  ActionKind kind;
  Steps body;
  bool keeps = false;  // the F of a micro-batch without R, of others that have it: it leaves what R would
  std::array<Steps*, 1> bodies() { return {&body}; }
};

/// A reduce-scatter, which may be missing, the loop nests that make of each of its results a part of what all ranks
/// need, and the all-gather of these parts: its body's steps, in this order, which the emitted program makes in one
/// pass over memory (one_pass.h).
struct OnePassStep {
  Steps body;
  std::array<Steps*, 1> bodies() { return {&body}; }
};

/// A kind of step that touches no memory itself, but has other steps executed: it lists their bodies, and says in
/// print_program, verify_program, emit_functions and interpret/steps when each is executed. All else reaches the steps
/// in them by program/walk.h.
template <class Kind>
concept HasBodies = requires(Kind kind) {
  kind.bodies();
};

using StepKind =
    std::variant<Nest, ProductStep, AttentionStep, TakeStep, ScatterStep, DefinedStep, CollectiveStep, CombinedStep,
                 CopyStep, FillStep, MessageStep, UntilStep, ForStep, BranchStep, ActionStep, OnePassStep>;

struct Step {
  StepKind what;
  Part part = Part::forward;
  std::vector<Span> spans;         // the lines of the spec it comes from, in order
  std::string scope;               // block instance path, for functions of the emitted program
  std::vector<std::string> notes;  // for the reader: what, shapes, communication
  double seconds = 0;              // predicted, of what it computes itself, once
};

/// Of a dim, what a routine works on: its elements up to the index in `last` (Bound in graph.h).
struct RoutineBound {
  DimId dim;
  BufferId last;
};

/// A list of steps that the program executes when it is called.
struct Routine {
  std::string name;  // unique in the program: "train", "evaluate", "evaluate.finish"
  Steps steps;
  std::optional<uint32_t> after_forward_of;  // executes the forward steps of that routine first
  std::vector<RoutineBound> bounds = {};     // what bound_steps (bound.h) says to the steps
};

/// What an entry carries from call to call: it begins as the reduction's neutral value, each call adds to it.
struct Accumulator {
  BufferId buffer;
  Reduce reduce;
};

/// One thing that a program does when it is called (codegen/program/entry.h), lowered.
struct EntryPoint {
  std::string name, meaning;       // of Entry
  uint32_t run = 0;                // of Program::routines: what each call executes
  std::optional<uint32_t> finish;  // and what the end of several calls executes
  int64_t after_steps = 0;         // of Entry
  StoredId begins;                 // of Entry
  std::vector<Accumulator> carried;
  std::vector<BufferId> results;  // f32 or f64 scalars, complete on every rank after the last of these routines
  /// A whole local array with its dims in logical order, there until another entry is called.
  struct Output {
    std::string name;
    BufferId buffer;
    std::vector<DimId> dims;
    Span span;
    bool stored = false;  // it is a stored tensor's own buffer
  };
  std::vector<Output> outputs;
  std::vector<StoredId> unread;            // inputs that it does without, of an entry that only looks at the model
  DimId samples;                           // of its inputs, where a step takes these whole
  std::map<std::string, BufferId> wanted;  // for fetch and verify: whole stacked local values after a call
};

/// Memory of the largest rank, bytes.
struct MemoryPlan {
  int64_t arena = 0, own = 0;  // addresses, the same on every rank
  std::map<BufferKind, int64_t> by_kind;
  std::vector<AxisId> axes;              // by whose coordinates ranks use unlike parts of these; none: all use all
  std::vector<meshrt::RankMemory> used;  // by the index over these axes
  /// Bytes of the rank that uses most.
  int64_t peak() const;
};

struct Program {
  // Made, copied and destroyed in one file: to generate that for so deep a struct takes each file a second.
  Program();
  Program(const Program&);
  Program(Program&&) noexcept;
  Program& operator=(const Program&);
  Program& operator=(Program&&) noexcept;
  ~Program();

  ShardedGraph sharded;  // of the first entry (dims, stored tensors, mesh, layout), with the movements of all entries
  std::vector<Buffer> buffers;
  std::vector<Routine> routines;
  std::vector<EntryPoint> entries;  // the training step first
  std::vector<BufferId> kept;       // while entries are lowered: what the first leaves for one that is still to come
  uint32_t loops = 0;               // LoopIds in use
  MemoryPlan memory;
  const EntryPoint& step() const { return entries.front(); }
  const EntryPoint* entry(std::string_view name) const;  // null where there is none
  Buffer& buffer(BufferId id) { return buffers[id.index]; }
  const Buffer& buffer(BufferId id) const { return buffers[id.index]; }
};

/// Whether it rounds numbers to the type, bf16 or f16.
bool rounds_to(const Program&, meshrt::Type);
/// Whether ranks add up parts that are in it.
bool adds_up(const Program&, meshrt::Type);
/// Whether products, of two operands of it, attention or convolutions read them.
bool multiplies(const Program&, meshrt::Type);
/// Whether a step is a convolution.
bool has_convolutions(const Program&);

}  // namespace mesh
