// graph.h: the typed graph. Values are global tensors with a set of named dims; nodes are operations in SSA form;
// bodies are straight lists of nodes, of which a loop node owns one. Nothing here knows of meshes. The same structure
// carries the forward graph, the graph with gradients and updates, and (with placements beside it,
// layout/sharded_graph.h) the sharded graph.
#pragma once
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/graph/ids.h"
#include "codegen/graph/map_function.h"
#include "frontend/source.h"
#include "meshrt/initial.h"
#include "meshrt/types.h"

namespace mesh {

using meshrt::Edge;
using meshrt::Reduce;
using meshrt::Type;

/// A named dim of static size. `key = seq` is a dim of its own.
struct Dim {
  std::string name;  // "seq", or "Block.dim" for a local one
  int64_t size;
  std::string derivation;  // "4 * embed", for messages; empty for a plain number
  Span span;
  std::optional<Edge> edge = {};  // where one was declared
};

/// Elements beside a part of a dim that are held with it: those of its neighbours, beyond the dim's ends what `edge`
/// says.
struct Margin {
  int64_t before = 0, after = 0;
  Edge edge = {};
  auto operator<=>(const Margin&) const = default;
  explicit operator bool() const { return before > 0 || after > 0; }
};

/// Element type and dims in logical order. `index_of` is set for index(dim); then element is i32.
struct ValueType {
  Type element = Type::f32;
  DimId index_of;
  std::vector<DimId> dims;
  bool operator==(const ValueType&) const = default;
};

/// What arithmetic on numbers of the type is done in, and what gradients of such values are in: bf16 and f16 are for
/// keeping and moving numbers.
constexpr Type computed_in(Type type) { return type == Type::bf16 || type == Type::f16 ? Type::f32 : type; }
constexpr bool is_narrow(Type type) { return computed_in(type) != type; }

/// Which of the four functions of a region (gradient/regions.h), or the update, a node belongs to.
enum class Part : uint8_t {
  forward,          // F: values from inputs and parameters
  recompute,        // R: what F computed and did not keep, once more
  input_gradient,   // I: gradients that other regions or earlier nodes need
  weight_gradient,  // W: gradients of parameters alone
  update            // clipping, optimizer, what is written back
};
const char* name_of(Part);
const char* phase_of(Part);  // forward, backward or update
/// As what a node is executed today: what a gradient needs is recomputed where it is needed.
constexpr Part executed_as(Part part) { return part == Part::recompute ? Part::input_gradient : part; }
/// I or W.
constexpr bool is_gradient(Part part) { return part == Part::input_gradient || part == Part::weight_gradient; }
constexpr bool together(Part a, Part b) { return executed_as(a) == executed_as(b); }

// ---- attributes: one struct an op; the variant's type is the op's kind
// ---------------------------------------------------

/// A number that an op has. Equal where all bits are: 0 is not -0, and NaN is itself.
struct ExactNumber {
  double value = 0;
  operator double() const { return value; }
  bool operator==(const ExactNumber& other) const {
    return std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(other.value);
  }
};

/// The number that a reduction starts from.
constexpr double neutral(Reduce reduce) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return reduce == Reduce::sum ? 0 : reduce == Reduce::max ? -infinity : infinity;
}

struct ReadOp {
  StoredId stored;
  bool operator==(const ReadOp&) const = default;
};  // () -> the stored tensor's value
struct LiteralOp {
  ExactNumber value;
  std::vector<DimId> counts = {};  // the dims whose sizes' product it is, for the reader; none: a number of its own
  bool operator==(const LiteralOp& other) const { return value == other.value; }
};  // () -> a scalar of the result's element type
struct PositionOp {
  DimId dim;
  bool operator==(const PositionOp&) const = default;
};  // () -> i32[dim]: global positions
struct StepOp {
  bool operator==(const StepOp&) const = default;
};  // () -> f64 scalar: number of this optimizer step, from 1
/// A learning rate as a function of the step: see meshrt/rate.h.
struct Schedule {
  std::string name;                                    // constant | cosine | inverse_sqrt | linear | step
  std::vector<std::pair<std::string, double>> values;  // rate or peak, warmup, and what else its row says (rates.cpp)
  bool of_run = true;                                  // `train.lr` replaces its rate or peak
  double value(const std::string& key) const;          // 0 where it has none
  bool operator==(const Schedule&) const = default;
};
struct RateOp {  // () -> f64 scalar: learning rate of this step
  std::vector<Schedule> factors;
  bool operator==(const RateOp&) const = default;
};
/// "0.5 * cosine(peak: 0.1, warmup: 10)"
std::string to_string(const RateOp&);
/// What `train.lr` replaces.
double replaced_rate(const RateOp&);
enum class Distribution : uint8_t { uniform, normal };  // in [0, 1); of mean 0 and deviation 1
const char* name_of(Distribution);
/// Of a number: ten rounds of two products, and what makes a number of the bits; of a normal one twice as many.
constexpr double flops_of_uniform = 60, flops_of_normal = 120;
/// Random numbers of this step, counted by their logical index: the same under every layout.
struct RandomOp {  // (turns of the loops around it, outermost first; turns of `counted`) -> [dims]
  Distribution distribution;
  std::string path;  // "layer.attn.dropout": one for each such op of a model
  Type element;
  std::vector<DimId> dims;
  std::vector<DimId> counted;  // their order counts the elements: `dims`, and those along which a loop takes parts
  /// How many numbers a sample has. Not 0: the samples are counted first, by their places in the set of which each call
  /// reads a batch; 0: by their places in the batch, as all else is.
  int64_t of_sample = 0;
  bool operator==(const RandomOp&) const = default;
};
struct MapOp {
  MapFunction function;
  bool operator==(const MapOp&) const = default;
};  // elementwise over the union of the operands' dims, which is one operand's
struct BroadcastOp {
  std::vector<DimId> dims;
  bool operator==(const BroadcastOp&) const = default;
};  // (x) -> x's dims, then `dims`
struct ReduceOp {
  Reduce reduce;
  std::vector<DimId> dims;
  bool operator==(const ReduceOp&) const = default;
};  // (x) -> without dims; sums accumulate in f32 or wider
struct ArgReduceOp {
  bool largest;
  DimId dim;
  bool operator==(const ArgReduceOp&) const = default;
};  // (x) -> index(dim) without dim; the smallest index wins
struct DotOp {
  std::vector<DimId> dims;
  bool operator==(const DotOp&) const = default;
};  // (a, b) -> a's remaining dims, then b's new ones; shared dims that are not contracted pair up
struct RenameOp {
  std::vector<DimId> from, to;
  bool operator==(const RenameOp&) const = default;
};  // same memory, other names: from[i] as to[i], all at once
/// What a dim of the operand is called in the result.
DimId renamed(const RenameOp&, DimId);
struct SplitOp {
  DimId from;
  std::vector<DimId> to;
  bool operator==(const SplitOp&) const = default;
};  // heads -> kv * group, first slowest, in place
struct MergeOp {
  std::vector<DimId> from;
  DimId to;
  bool operator==(const MergeOp&) const = default;
};  // the reverse; `from` need not be adjacent in the operand: result has `to` at the first one's place
struct TakeOp {
  DimId dim;
  bool operator==(const TakeOp&) const = default;
};  // (table[.., dim, ..], ids: index(dim)) -> ids' dims, then the table's others; a dim that both have pairs up. The
    // row at -1 is zero
struct ScatterOp {
  DimId dim;
  std::vector<DimId> table;
  Reduce reduce = Reduce::sum;  // or max
  bool operator==(const ScatterOp&) const = default;
};  // (ids: index(dim), x[ids' dims, ..]) -> [table]: rows of x reduced at ids, those at -1 left out; where none comes,
    // the reduction's neutral value
struct SliceOp {
  DimId from, to;  // `to` unset: the one element at `begin`, and no dim
  int64_t begin = 0, step = 1;
  bool operator==(const SliceOp&) const = default;
};  // (x) -> elements begin, begin + step, .. of `from`, as `to` in its place
struct PadOp {
  DimId from, to;
  int64_t before = 0, every = 1;
  ExactNumber value;
  bool operator==(const PadOp&) const = default;
};  // (x) -> element i of `from` at before + every * i of `to`, in its place; `value` elsewhere
struct ShiftOp {
  DimId dim;
  int64_t distance;  // within the dim's size
  Edge edge;
  bool operator==(const ShiftOp&) const = default;
};  // (x) -> element i is x's element i + distance
struct ConcatOp {
  std::vector<DimId> parts;
  DimId to;
  bool operator==(const ConcatOp&) const = default;
};  // (x, y, ..) -> x along parts[0], then y along parts[1], .. as `to`: in the place of parts[0]; an unset part is one
    // element of an operand without the dim, and `to` the last dim
struct CumulativeOp {
  DimId dim;
  bool reverse = false;
  bool operator==(const CumulativeOp&) const = default;
};  // (x) -> element i is the sum of x's elements up to i; in reverse: from i
// Composite: ops that are written as maps and reductions after differentiation (rewrites/decompose.cpp), so that their
// gradients keep a good form.
// Operands: x, and optionally keep (bool): entries where keep is false count as absent.
struct SoftmaxOp {
  DimId dim;
  bool operator==(const SoftmaxOp&) const = default;
};  // (x[, keep]) -> x's dims; a row with nothing kept gives 0
struct LogSoftmaxOp {
  DimId dim;
  bool operator==(const LogSoftmaxOp&) const = default;
};
struct LogSumExpOp {
  std::vector<DimId> dims;
  bool operator==(const LogSumExpOp&) const = default;
};  // (x[, keep]) -> without dims; nothing kept gives -inf
// Recognised (rewrites/recognise.cpp): softmax(mask(q k * scale)) v, never storing scores.
struct AttentionOp {           // (q, k, v) -> (out, log_sum)
  DimId query, key, head_dim;  // q[.., query, head_dim], k[.., key, head_dim], v[.., key, value_dim]; of the other dims
  DimId value_dim;             // of q both k and v may lack some: the queries along these read the same keys
  double scale;
  // least <= position[query] - position[key] <= most; unset: whatever it is. A query that sees no key gives 0.
  std::optional<int64_t> least = {}, most = {};
  bool operator==(const AttentionOp&) const = default;
};
struct AttentionGradientOp {
  AttentionOp forward;
  bool operator==(const AttentionGradientOp&) const = default;
};  // (q, k, v, out, log_sum, d_out) -> (d_q, d_k, d_v)
struct UpdateOp {
  StoredId stored;
  bool operator==(const UpdateOp&) const = default;
};  // (x) -> (): the stored tensor's value after this step
struct UntilOp {
  bool operator==(const UntilOp&) const = default;
};  // (done) -> (): the turn in which it holds is the loop's last one. Stands last in a loop's body
struct LoopOp {
  DimId dim;
  BodyId body;
  bool reverse = false;  // turns from the last to the first
  struct Carry {
    ValueId initial, entering, leaving, result;
    bool operator==(const Carry&) const = default;
  };  // outer, inner, inner, outer
  struct Slice {
    ValueId stacked, turn;
    bool operator==(const Slice&) const = default;
  };  // outer [dim, ..] -> inner [..]
  struct Collect {
    ValueId turn, stacked;
    bool operator==(const Collect&) const = default;
  };  // inner [..] -> outer [dim, ..]
  std::vector<Carry> carries;
  std::vector<Slice> slices;
  std::vector<Collect> collects;  // zeros for turns that are not made
  ValueId index;                  // inner: i32 scalar, the turn; unset where nobody asks
  bool operator==(const LoopOp&) const = default;
};
struct OpKind;
/// An op that passes know by its definition alone (graph/op.h). What its dims and numbers mean its own file knows
/// (codegen/ops/).
struct DefinedOp {
  const OpKind* kind;
  std::vector<DimId> dims;
  std::vector<int64_t> numbers;
  bool operator==(const DefinedOp&) const = default;
};
// Inserted by the layout engine: brings a value from one placement to another; see layout/sharded_graph.h.
struct ReshardOp {
  uint32_t step;
  bool operator==(const ReshardOp&) const = default;
};

using Op = std::variant<ReadOp, LiteralOp, PositionOp, StepOp, RateOp, RandomOp, MapOp, BroadcastOp, ReduceOp,
                        ArgReduceOp, DotOp, RenameOp, SplitOp, MergeOp, TakeOp, ScatterOp, SliceOp, PadOp, ShiftOp,
                        ConcatOp, CumulativeOp, DefinedOp, SoftmaxOp, LogSoftmaxOp, LogSumExpOp, AttentionOp,
                        AttentionGradientOp, UpdateOp, UntilOp, LoopOp, ReshardOp>;

/// Every dim that an op's attributes name.
void for_each_dim(Op&, const std::function<void(DimId&)>& visit);
bool names_dim(Op, DimId);
/// Equal for equal ops.
size_t hash_of(const Op&);

struct Node {
  Op op;
  std::vector<ValueId> inputs;   // of a loop: initials of carries, then stacked operands of slices
  std::vector<ValueId> results;  // of a loop: results of carries, then stacked collects
  BodyId body;
  Part part = Part::forward;
  Span span;             // the expression in the spec that asked for it
  std::string scope;     // path of the block instance it comes from: "layer.attn"; "" in the model itself
  RegionId region = {};  // of the forward node that it is, or was made for; unset for updates and stored tensors
  std::string call =
      {};  // of an instance, the scope with its number: "layer.attn#2"; may be empty where it is the first

  const std::string& called() const { return call.empty() ? scope : call; }
};

struct Value {
  ValueType type;
  NodeId producer;         // of a loop's carry.entering, slice.turn and index: the loop node
  BodyId body;             // where it is defined; usable there and in bodies of loops inside
  std::string name;        // "layer.attn.score", "d_layer.attn.wq"; empty for a nameless intermediate
  std::string label = {};  // what a nameless one is, for readers of the emitted program: "d_layer.attn.q"
  bool passing = false;    // stands between two changes that the spec makes at once: it has no such value
  std::vector<std::string> other_names = {};  // `q` of `q = p`, or of `q = Block(...)`, which is called "Block"
  std::vector<std::string> inner_names = {};  // of what its op computes on the way, and stores nowhere

  /// Whether `is` holds for its name, or for one of its other names.
  template <class Is>
  bool any_name(const Is& is) const {
    return is(name) || std::ranges::any_of(other_names, is);
  }
  void add_name(const std::string&);
  void add_inner(const Value&);
  /// What stands for another value goes by its names.
  void take_names(const Value& of);
};

struct Body {
  std::vector<NodeId> nodes;  // in order of execution
  NodeId owner;               // the loop, unset for the root
};

/// A cache is what an entry leaves for later calls and no checkpoint holds.
enum class StoredKind : uint8_t { input, parameter, optimizer, state, cache };

/// A tensor that outlives a step. Inside `repeat` the loop's dims come first in its type.
struct Stored {
  StoredKind kind;
  std::string path;  // "layer.attn.wq"; of optimizer state "layer.attn.wq.moment1"
  ValueType type;
  meshrt::Initial initial;
  Span span;
  ValueId value;          // what its ReadOp gives (root body)
  StoredId parameter;     // of optimizer state: whose it is
  size_t stacked = 0;     // how many of its first dims are those of the loops that it lies in
  bool computed = false;  // a state that begins as an expression: an entry of the program gives it its first value
  bool frozen = false;    // a parameter that `minimize` leaves as it is: entries without an objective know it too
};

/// `minimize loss with adamw(...) { groups }` with every key resolved per parameter.
struct Objective {
  ValueId loss;
  std::string optimizer;                 // adafactor | adam | adamw | lion | rmsprop | sgd
  std::map<std::string, double> values;  // its settings, truth values as 0 and 1, and clip (absent: none)
  RateOp rate;
  Span span;
  struct Parameter {
    StoredId stored;
    std::map<std::string, double> values;  // what its group says, else as above
    std::optional<RateOp> rate;            // of its group
  };
  std::vector<Parameter> parameters;  // in order of declaration
  /// What the loss is multiplied by for its gradients (optimizer/loss_scale.h), and what is kept of it: of replicas by
  /// each.
  struct Scaling {
    double start;
    StoredId scale = {}, good = {};  // of one that changes: what it is, and how many steps in a row were good
    StoredId skipped = {};           // how many steps were not taken
  };
  std::optional<Scaling> scaling = {};
};

struct Metric {
  std::string name;
  ValueId value;  // scalar
  Span span;
  std::string asked = {};  // set: none of the spec but of `log.watch`, whose entry this is (watch.h)
  bool watched() const { return !asked.empty(); }
  /// The entry, where that is not the name itself.
  std::string pattern() const { return asked == name ? "" : asked; }
};

/// `generate token along seq from logits`: the input is continued along the dim, by what the logits say of the next.
struct Generation {
  StoredId input;
  DimId along;
  ValueId logits;  // [dims of the input, the dim of which its elements are indices]; root body
  Span span;
};

/// Of a dim, what an entry works on: its elements up to the index that `last` says when the entry is called. Those
/// behind have no value, and nothing that the entry gives or leaves is made of them.
struct Bound {
  DimId dim;
  StoredId last;  // an input: one number, i32
};

/// The samples of a step in equal parts, of which a loop takes one a turn (micro_batches.h, replicas.h): the dims that
/// took the place of `samples`, `turns` slower; else unset.
struct SampleParts {
  DimId samples, turns, part;
  Span span;                                    // of `accumulate: 4`, of `microbatches: 8`, or of `sync: 500`
  bool by_replicas = false, by_stages = false;  // what cuts them, for those who read of it
  struct Name {
    DimId samples, part;
  };
  std::vector<Name> names = {};  // other names of `samples`, each with that of a part's
};

/// Of manual regions: a dim that counts the ranks of an axis of the mesh, so that what each rank has of a value lies
/// side by side. Every layout puts it on the axis.
struct RanksDim {
  DimId dim;
  std::string axis;
  struct Cut {
    DimId whole, local;  // a dim of the spec, and what a rank has of it
    Span span;           // of the region that cuts it
  };
  std::vector<Cut> cuts;
  Span span;  // of the first region over the axis
};

/// Of a loop that became one over groups of its turns (gradient/group_turns.h): the dims that count turns and groups.
struct GroupedTurns {
  DimId turns, groups;
  int64_t size;  // of a group
};

/// A value that the caller wants to see after a step, by its name.
struct Wanted {
  std::string name;
  ValueId value;  // root body
};

/// `output u`: what a run file may ask to be written. A stored tensor is written as it is after the step.
struct Output {
  std::string name;
  ValueId value;    // root body; unset for a stored tensor
  StoredId stored;  // unset for a computed value
  Span span;
};

struct Graph {
  // Made, copied and destroyed in one file: to generate that for so deep a struct takes each file a second.
  Graph();
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  std::string model;
  std::vector<Dim> dims;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Body> bodies;  // bodies[0] is the root
  std::vector<Stored> stored;
  std::map<std::string, ValueId> names;  // what `fetch` knows: last binding of each name, in whatever body it lies
  std::optional<Objective> objective;
  std::vector<Metric> metrics;  // the loss first, what is watched last
  DimId sample_dim;
  SampleParts replicas;  // that train apart, or are evaluated: where both are set, micro-batches are parts of these
  SampleParts micro_batches;
  std::vector<RanksDim> ranks_dims;      // of manual regions
  std::optional<Generation> generation;  // until the entry is made of it
  std::vector<Wanted> wanted;
  std::vector<Output> outputs;  // in order of declaration
  std::vector<Bound> bounds;    // of an entry that works on a part of some dims
  std::vector<GroupedTurns> grouped;

  Dim& dim(DimId id) { return dims[id.index]; }
  const Dim& dim(DimId id) const { return dims[id.index]; }
  Value& value(ValueId id) { return values[id.index]; }
  const Value& value(ValueId id) const { return values[id.index]; }
  Node& node(NodeId id) { return nodes[id.index]; }
  const Node& node(NodeId id) const { return nodes[id.index]; }
  Body& body(BodyId id) { return bodies[id.index]; }
  const Body& body(BodyId id) const { return bodies[id.index]; }
  BodyId root() const { return BodyId{0}; }
  const ValueType& type(ValueId id) const { return values[id.index].type; }
  int64_t elements(const ValueType& type) const;
};

/// The condition that ends a loop early; unset where it makes every turn.
ValueId until(const Graph&, const LoopOp&);

/// The parameter whose a tensor of the optimizer is, of that of a replica too; any other tensor itself.
StoredId parameter_of(const Graph&, StoredId);

/// The dims that samples are in input tensors, slowest first; none without a sample dim.
std::vector<DimId> sample_dims(const Graph&);

/// Whether a value of the type is of single samples: of those of a step, or of a part.
bool has_samples(const Graph&, const ValueType&);

/// Whether a loop's turns are parts of the samples.
bool takes_parts(const Graph&, const LoopOp&);

/// Names and sizes of a type's dims as the spec has them: the dims that samples are in (sample_dims) are one again.
std::vector<std::pair<std::string, int64_t>> written_dims(const Graph&, const ValueType&);

/// "f32[batch, seq, embed]", as errors and dumps print it.
std::string to_string(const Graph&, const ValueType&);

}  // namespace mesh
