// attention.cpp: attention bound to one rank. Of the dims beside positions and features (batches, heads) the
// last two in the order of log_sum are the kernel's own loops, the others are loops around it.
#include "meshrt/attention.h"

#include <algorithm>
#include <memory>

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"

namespace mesh {

namespace {

// One operand: its place and the distances between its elements, in elements.
struct Operand {
  Pointer pointer;
  meshrt::HeadStrides strides;
  std::vector<int64_t> outer;  // by outer loop

  template <class T>
  T* at(const Binding& binding, const std::vector<int64_t>& turn) const {
    T* place = reinterpret_cast<T*>(pointer.at(binding));
    for (size_t i = 0; i < turn.size(); ++i) place += turn[i] * outer[i];
    return place;
  }
};

class AttentionBinder {
 public:
  AttentionBinder(const Binding& binding, const AttentionStep& step, Type type)
      : binding_(binding), step_(step), type_(type) {
    const auto log_dims = dims_of(binding.program, step.log_sum);
    if (log_dims.size() != step.batch.size() + 1 || log_dims.back().dim != step.op.query)
      fault("log_sum does not have the queries innermost");
    for (const LocalDim& held : log_dims.first(step.batch.size())) {
      if (std::ranges::find(step.batch, held.dim) == step.batch.end()) fault("log_sum has a dim that q lacks");
      batch_.push_back(held);
    }
    inner_ = std::min<size_t>(2, batch_.size());
    const auto key_has = [&](size_t i) { return has(step.k, batch_[i].dim); };
    for (size_t i = 0; i < batch_.size(); ++i) {
      if (key_has(i) != has(step.v, batch_[i].dim)) fault("k and v do not have the same dims");
      if (step.backward && !key_has(i) && i + 1 != batch_.size())
        fault("k lacks a dim that is not the innermost of the heads");
    }
    const LocalDim query = find(step.q, step.op.query), key = find(step.k, step.op.key);
    shape.queries = binding.extent(query);
    if (query.placement.deal) positions = global_indices(binding.program, query, binding.rank.rank());
    else shape.query_begin = binding.range(query).begin;
    shape.keys = binding.extent(key);
    shape.key_begin = binding.range(key).begin;
    shape.heads = batch_.empty() ? 1 : binding.extent(batch_.back());
    shape.key_heads = batch_.empty() || key_has(batch_.size() - 1) ? shape.heads : 1;
    shape.batch = inner_ == 2 ? binding.extent(batch_[batch_.size() - 2]) : 1;
    shape.head = binding.extent(find(step.q, step.op.head_dim));
    shape.value_head = binding.extent(find(step.v, step.op.value_dim));
    shape.scale = step.op.scale;
    shape.causal = step.op.causal;
    shape.window = step.op.window;
    for (size_t i = 0; i + inner_ < batch_.size(); ++i) turns.push_back(binding.extent(batch_[i]));
    if (shape.head != binding.extent(find(step.k, step.op.head_dim))) fault("q and k hold different parts of a head");
  }

  /// `seq` and `feature` are the dims of positions and of the numbers of one head.
  Operand operand(const Access& access, DimId seq, DimId feature) const {
    check_type(access);
    if (dims_of(binding_.program, access).back().dim != feature)
      fault("the numbers of a head of " + binding_.buffer(access).name + " do not lie side by side");
    Operand made{Pointer(binding_, access), {}, {}};
    made.strides.seq = stride_of(access, seq);
    if (!batch_.empty()) made.strides.head = stride_of(access, batch_.back().dim);
    if (inner_ == 2) made.strides.batch = stride_of(access, batch_[batch_.size() - 2].dim);
    for (size_t i = 0; i < turns.size(); ++i) made.outer.push_back(stride_of(access, batch_[i].dim));
    return made;
  }
  Operand log_sum() const {
    check_type(step_.log_sum);
    Operand made{Pointer(binding_, step_.log_sum), {}, {}};
    for (size_t i = 0; i < turns.size(); ++i) made.outer.push_back(stride_of(step_.log_sum, batch_[i].dim));
    return made;
  }

  meshrt::AttentionShape shape;
  std::vector<int64_t> positions;  // of the queries, where these are not neighbours
  std::vector<int64_t> turns;      // of the loops around the kernel

 private:
  [[noreturn]] void fault(const std::string& what) const {
    internal_error("attention of " + binding_.buffer(step_.q).name + ": " + what);
  }
  bool has(const Access& access, DimId dim) const {
    const auto held = dims_of(binding_.program, access);
    return std::ranges::find(held, dim, &LocalDim::dim) != held.end();
  }
  LocalDim find(const Access& access, DimId dim) const {
    return dims_of(binding_.program, access)[position_of(binding_, access, dim)];
  }
  int64_t stride_of(const Access& access, DimId dim) const {
    if (!has(access, dim)) return 0;
    return stride(binding_.program, binding_.buffer(access), access.turns.size() + position_of(binding_, access, dim),
                  binding_.rank.rank());
  }
  void check_type(const Access& access) const {
    if (binding_.buffer(access).type != type_) fault("its tensors have different types");
  }

  const Binding& binding_;
  const AttentionStep& step_;
  Type type_;
  std::vector<LocalDim> batch_;  // in the order of log_sum
  size_t inner_ = 0;             // how many of them are the kernel's
};

// run(turn) for all turns of the loops around the kernel.
template <class Run>
void each_turn(const std::vector<int64_t>& turns, std::vector<int64_t>& turn, const Run& run, size_t depth = 0) {
  if (depth == turns.size()) return run();
  for (turn[depth] = 0; turn[depth] < turns[depth]; ++turn[depth]) each_turn(turns, turn, run, depth + 1);
}

template <class T>
Task bind_attention(Binding& binding, const AttentionStep& step) {
  const AttentionBinder binder(binding, step, meshrt::type_of<T>);
  const AttentionOp& op = step.op;
  const Operand q = binder.operand(step.q, op.query, op.head_dim), k = binder.operand(step.k, op.key, op.head_dim),
                v = binder.operand(step.v, op.key, op.value_dim),
                out = binder.operand(step.out, op.query, op.value_dim), log_sum = binder.log_sum();
  meshrt::AttentionShape shape = binder.shape;
  const auto positions = std::make_shared<const std::vector<int64_t>>(binder.positions);  // the action keeps them
  if (!positions->empty()) shape.query_at = positions->data();
  const std::vector<int64_t> turns = binder.turns;
  if (!step.backward) {
    return [=, kept = positions, &binding, turn = std::vector<int64_t>(turns.size())]() mutable {
      each_turn(turns, turn, [&] {
        meshrt::attention<T>(
            shape, {q.at<const T>(binding, turn), k.at<const T>(binding, turn), v.at<const T>(binding, turn), q.strides,
                    k.strides, v.strides, out.at<T>(binding, turn), out.strides, log_sum.at<T>(binding, turn)});
      });
    };
  }
  const Operand d_out = binder.operand(step.d_out, op.query, op.value_dim),
                d_q = binder.operand(step.d_q, op.query, op.head_dim),
                d_k = binder.operand(step.d_k, op.key, op.head_dim),
                d_v = binder.operand(step.d_v, op.key, op.value_dim);
  return [=, kept = positions, &binding, turn = std::vector<int64_t>(turns.size())]() mutable {
    each_turn(turns, turn, [&] {
      meshrt::attention_backward<T>(
          shape, {q.at<const T>(binding, turn), k.at<const T>(binding, turn), v.at<const T>(binding, turn), q.strides,
                  k.strides, v.strides, out.at<const T>(binding, turn), out.strides, log_sum.at<const T>(binding, turn),
                  d_out.at<const T>(binding, turn), d_out.strides, d_q.at<T>(binding, turn), d_k.at<T>(binding, turn),
                  d_v.at<T>(binding, turn), d_q.strides, d_k.strides, d_v.strides});
    });
  };
}

}  // namespace

Task bind_step(Binding& binding, const AttentionStep& step) {
  switch (const Type type = binding.buffer(step.out).type) {
    case Type::f32: return bind_attention<float>(binding, step);
    case Type::f64: return bind_attention<double>(binding, step);
    default: internal_error(std::string("the interpreter has no attention of ") + meshrt::name_of(type));
  }
}

}  // namespace mesh
