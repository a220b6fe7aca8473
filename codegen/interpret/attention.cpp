// attention.cpp: attention bound to one rank. Of the dims beside positions and features, in the order of log_sum, heads
// (head_dims) and the one before them are the kernel's own loops, the others are loops around it.
#include "meshrt/attention.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "codegen/graph/builder.h"
#include "codegen/interpret/steps.h"
#include "meshrt/ring.h"

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
  /// `type` is what attention gives, `read` what its products read.
  AttentionBinder(const Binding& binding, const AttentionStep& step, Type type, Type read)
      : binding_(binding), step_(step), type_(type), read_(read) {
    const auto log_dims = dims_of(binding.program, step.log_sum);
    if (log_dims.size() != step.batch.size() + 1 || log_dims.back().dim != step.op.query)
      fault("log_sum does not have the queries innermost");
    for (const LocalDim& held : log_dims.first(step.batch.size())) {
      if (std::ranges::find(step.batch, held.dim) == step.batch.end()) fault("log_sum has a dim that q lacks");
      batch_.push_back(held);
    }
    const std::span<const LocalDim> heads = head_dims(binding.program, step);
    outer_ = batch_.size() - heads.size();
    const auto key_has = [&](size_t i) { return has(step.k, batch_[i].dim); };
    for (size_t i = 0; i < batch_.size(); ++i) {
      if (key_has(i) != has(step.v, batch_[i].dim)) fault("k and v do not have the same dims");
      if (step.backward && !key_has(i) && i < outer_) fault("k lacks a dim that is not innermost of the heads");
    }
    const LocalDim query = find(step.q, step.op.query), key = find(step.k, step.op.key);
    shape.queries = binding.extent(query);
    if (query.placement.deal) positions = global_indices(binding.program, query, binding.rank.rank());
    else shape.query_begin = binding.range(query).begin;
    shape.keys = binding.extent(key);
    shape.key_begin = binding.range(key).begin;
    shape.heads = 1;
    for (const LocalDim& head : heads) shape.heads *= binding.extent(head);
    shape.key_heads = batch_.empty() || key_has(batch_.size() - 1) ? shape.heads : 1;
    shape.batch = outer_ > 0 ? binding.extent(batch_[outer_ - 1]) : 1;
    shape.head = binding.extent(find(step.q, step.op.head_dim));
    shape.value_head = binding.extent(find(step.v, step.op.value_dim));
    shape.scale = step.op.scale;
    shape.least = step.op.least.value_or(shape.least);
    shape.most = step.op.most.value_or(shape.most);
    for (size_t i = 0; i + 1 < outer_; ++i) turns.push_back(binding.extent(batch_[i]));
    if (shape.head != binding.extent(find(step.k, step.op.head_dim))) fault("q and k hold different parts of a head");
  }

  /// `seq` and `feature` are the dims of positions and of the numbers of one head.
  Operand made(const Access& access, DimId seq, DimId feature) const { return operand(access, type_, seq, feature); }
  Operand read(const Access& access, DimId seq, DimId feature) const { return operand(access, read_, seq, feature); }
  Operand log_sum() const {
    check_type(step_.log_sum, type_);
    Operand made{Pointer(binding_, step_.log_sum), {}, {}};
    for (size_t i = 0; i < turns.size(); ++i) made.outer.push_back(stride_of(step_.log_sum, batch_[i].dim));
    return made;
  }

  meshrt::AttentionShape shape;
  std::vector<int64_t> positions;  // of the queries, where these are not neighbours
  std::vector<int64_t> turns;      // of the loops around the kernel

 private:
  Operand operand(const Access& access, Type type, DimId seq, DimId feature) const {
    check_type(access, type);
    if (dims_of(binding_.program, access).back().dim != feature)
      fault("the numbers of a head of " + binding_.buffer(access).name + " do not lie side by side");
    Operand made{Pointer(binding_, access), {}, {}};
    made.strides.seq = stride_of(access, seq);
    if (!batch_.empty()) made.strides.head = stride_of(access, batch_.back().dim);
    if (outer_ > 0) made.strides.batch = stride_of(access, batch_[outer_ - 1].dim);
    for (size_t i = 0; i < turns.size(); ++i) made.outer.push_back(stride_of(access, batch_[i].dim));
    return made;
  }
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
  void check_type(const Access& access, Type type) const {
    if (binding_.buffer(access).type != type) fault("its tensors have different types");
  }

  const Binding& binding_;
  const AttentionStep& step_;
  Type type_, read_;
  std::vector<LocalDim> batch_;  // in the order of log_sum
  size_t outer_ = 0;             // how many of them stand in front of the heads
};

// run() for all turns of the loops around the kernel.
template <class Run>
void each_turn(const std::vector<int64_t>& turns, std::vector<int64_t>& turn, const Run& run, size_t depth = 0) {
  if (depth == turns.size()) return run();
  for (turn[depth] = 0; turn[depth] < turns[depth]; ++turn[depth]) each_turn(turns, turn, run, depth + 1);
}

// What of the keys and values a kernel works on, and where their gradients go: all that the rank has, or the part at
// hand of what goes round.
template <class T, class In>
struct Keys {
  const In *k, *v;
  T *d_k, *d_v;
  const meshrt::RingParts* part = nullptr;
  const meshrt::RingSums* sum = nullptr;
};

// Operand `i` of these (k, v), or of their gradients, in a turn of the loops, and its strides.
template <class Element, class Ring>
std::pair<Element*, meshrt::HeadStrides> of_keys(Element* begin, const Ring* ring, size_t i, const Operand& operand,
                                                 const std::vector<int64_t>& turn) {
  for (size_t l = 0; l < turn.size(); ++l)
    begin += turn[l] * (ring ? ring->stride(i, operand.outer[l]) : operand.outer[l]);
  return {begin, ring ? ring->strides(i, operand.strides) : operand.strides};
}

// A value that goes round: its own part, and places for others.
template <size_t count>
struct Round {
  Pointer own;
  std::array<Pointer, count> places;
  int64_t outer = 1, inner = 1;

  Round(const Binding& binding, const Access& part, const std::array<Access, count>& parts, DimId key)
      : own(binding, part) {
    std::ranges::transform(parts, places.begin(), [&](const Access& access) { return Pointer(binding, access); });
    const std::span<const LocalDim> dims = dims_of(binding.program, part);
    for (size_t i = 0; i < dims.size(); ++i) {
      const size_t at = position_of(binding, part, key);
      if (i != at) (i < at ? outer : inner) *= binding.extent(dims[i]);
    }
  }
  meshrt::Circulating<count> at(const Binding& binding) const {
    meshrt::Circulating<count> value{own.at(binding), {}, outer, inner};
    for (size_t i = 0; i < count; ++i) value.places[i] = places[i].at(binding);
    return value;
  }
};

template <class T, class In>
class BoundAttention {
 public:
  BoundAttention(Binding& binding, const AttentionStep& step)
      : binding_(binding),
        step_(step),
        binder_(binding, step, meshrt::type_of<T>, meshrt::type_of<In>),
        shape_(binder_.shape) {
    const AttentionOp& op = step.op;
    q_ = binder_.read(step.q, op.query, op.head_dim);
    k_ = binder_.read(step.k, op.key, op.head_dim);
    v_ = binder_.read(step.v, op.key, op.value_dim);
    out_ = binder_.made(step.out, op.query, op.value_dim);
    log_sum_ = binder_.log_sum();
    if (!binder_.positions.empty()) shape_.query_at = binder_.positions.data();
    turn_.resize(binder_.turns.size());
    if (step.ring) find_parts();
    if (!step.backward) return;
    d_out_ = binder_.read(step.d_out, op.query, op.value_dim);
    d_q_ = binder_.made(step.d_q, op.query, op.head_dim);
    d_k_ = binder_.made(step.d_k, op.key, op.head_dim);
    d_v_ = binder_.made(step.d_v, op.key, op.value_dim);
  }
  BoundAttention(const BoundAttention&) = delete;

  void run() {
    if (step_.ring) return run_ring();
    Keys<T, In> all{start<const In>(k_), start<const In>(v_), nullptr, nullptr};
    if (step_.backward) all.d_k = start<T>(d_k_), all.d_v = start<T>(d_v_);
    attend(shape_, all);
  }

 private:
  template <class Element>
  Element* start(const Operand& operand) const {
    return reinterpret_cast<Element*>(operand.pointer.at(binding_));
  }

  void attend(const meshrt::AttentionShape& shape, const Keys<T, In>& keys) {
    each_turn(binder_.turns, turn_, [&] {
      const auto [k, k_at] = of_keys(keys.k, keys.part, 0, k_, turn_);
      const auto [v, v_at] = of_keys(keys.v, keys.part, 1, v_, turn_);
      const In* const q = q_.at<const In>(binding_, turn_);
      T *const out = out_.at<T>(binding_, turn_), *const log_sum = log_sum_.at<T>(binding_, turn_);
      if (!step_.backward)
        return meshrt::attention<T, In>(shape, {q, k, v, q_.strides, k_at, v_at, out, out_.strides, log_sum});
      const auto [d_k, d_k_at] = of_keys(keys.d_k, keys.sum, 0, d_k_, turn_);
      const auto [d_v, d_v_at] = of_keys(keys.d_v, keys.sum, 1, d_v_, turn_);
      meshrt::attention_backward<T, In>(
          shape, {q, k, v, q_.strides, k_at, v_at, out, out_.strides, log_sum, d_out_.at<const In>(binding_, turn_),
                  d_out_.strides, d_q_.at<T>(binding_, turn_), d_k, d_v, d_q_.strides, d_k_at, d_v_at});
    });
  }

  // ---- keys that go round

  void find_parts() {
    const AttentionStep::Ring& ring = *step_.ring;
    const LocalDim keys = dims_of(binding_.program, step_.k)[position_of(binding_, step_.k, step_.op.key)];
    group_ = &group_of(binding_, ring.axes);
    for (const int member : group_->members) begin_.push_back(local_range(binding_.program, keys, member).begin);
    begin_.push_back(local_range(binding_.program, keys, group_->members.back()).end);
    deal_ = keys.placement.deal;
    meets_.assign(ring.meets.begin(), ring.meets.end());
    parts_ = {Round<2>(binding_, step_.k, ring.k, step_.op.key), Round<2>(binding_, step_.v, ring.v, step_.op.key)};
    if (step_.backward)
      sums_ = {Round<3>(binding_, step_.d_k, ring.d_k, step_.op.key),
               Round<3>(binding_, step_.d_v, ring.d_v, step_.op.key)};
  }

  meshrt::Site site(size_t step, const Access& value) const {
    return {static_cast<int32_t>(step_.ring->steps[step]), binding_.buffer(value).name.c_str()};
  }

  void run_ring() {
    meshrt::RingParts part(binding_.rank, *group_, site(0, step_.k), begin_,
                           {parts_[0].at(binding_), parts_[1].at(binding_)}, meshrt::type_of<In>, deal_, meets_);
    if (!step_.backward) {
      do attend(part.shape(shape_), {part.at<In>(0), part.at<In>(1), nullptr, nullptr, &part});
      while (part.next());
      return;
    }
    meshrt::RingSums sum(part, site(2, step_.d_k), {sums_[0].at(binding_), sums_[1].at(binding_)}, meshrt::type_of<T>);
    do {
      attend(part.shape(shape_), {part.at<In>(0), part.at<In>(1), sum.at<T>(0), sum.at<T>(1), &part, &sum});
      sum.next();
    } while (part.next());
  }

  Binding& binding_;
  const AttentionStep& step_;
  const AttentionBinder binder_;
  meshrt::AttentionShape shape_;
  Operand q_, k_, v_, out_, log_sum_, d_out_, d_q_, d_k_, d_v_;
  std::vector<int64_t> turn_;
  const meshrt::Group* group_ = nullptr;
  std::vector<int64_t> begin_;  // of the parts of the keys
  Deal deal_;
  std::vector<int> meets_;
  std::vector<Round<2>> parts_;
  std::vector<Round<3>> sums_;
};

template <class T, class In = T>
Task bind_attention(Binding& binding, const AttentionStep& step) {
  return [bound = std::make_shared<BoundAttention<T, In>>(binding, step)] { bound->run(); };
}

}  // namespace

Task bind_step(Binding& binding, const AttentionStep& step) {
  switch (const Type type = binding.buffer(step.out).type) {
    case Type::f32:
      switch (binding.buffer(step.q).type) {
        case Type::bf16: return bind_attention<float, meshrt::Bfloat16>(binding, step);
        case Type::f16: return bind_attention<float, meshrt::Float16>(binding, step);
        default: return bind_attention<float>(binding, step);
      }
    case Type::f64: return bind_attention<double>(binding, step);
    default: internal_error(std::string("the interpreter has no attention of ") + meshrt::name_of(type));
  }
}

}  // namespace mesh
