#include "codegen/graph/optimizer.h"

#include "codegen/graph/builder.h"

namespace mesh {
namespace {

using F = MapFunction;

class Optimizer {
 public:
  explicit Optimizer(Graph& graph) : graph_(graph), objective_(*graph.objective), build_(graph) {
    build_.part = Part::update;
    build_.span = objective_.span;
    // Numbers of the step are computed in f64: 1 - 0.999^t would lose half its digits in f32.
    rate_ = build_.value(RateOp(objective_.rate), {});
    step_ = build_.value(StepOp{}, {});
  }

  void run(std::map<StoredId, ValueId> gradients) {
    if (objective_.values.count("clip")) clip(gradients);
    for (const Objective::Parameter& parameter : objective_.parameters)
      if (!parameter.frozen && gradients.count(parameter.stored)) update(parameter, gradients.at(parameter.stored));
  }

 private:
  ValueId number(double value, Type type) { return build_.literal(value, type); }

  /// torch.nn.utils.clip_grad_norm_: all gradients times min(1, clip / (norm + 1e-6)).
  void clip(std::map<StoredId, ValueId>& gradients) {
    ValueId total;
    for (const auto& [id, gradient] : gradients) {
      const ValueId squares = build_.reduce(Reduce::sum, build_.map(F::square, {gradient}), graph_.type(gradient).dims);
      graph_.value(squares).label = "squares_" + graph_.stored[id.index].path;
      total = total ? build_.add(total, squares) : squares;
    }
    if (!total) return;
    const Type type = graph_.type(total).element;
    const ValueId norm = build_.map(F::sqrt, {total});
    graph_.value(norm).name = "grad_norm";
    graph_.names["grad_norm"] = norm;
    const ValueId scale = build_.map(
        F::minimum,
        {build_.divide(number(objective_.values.at("clip"), type), build_.add(norm, 1e-6)), number(1, type)});
    graph_.value(scale).label = "clip_scale";
    for (auto& [id, gradient] : gradients) gradient = build_.multiply(gradient, scale);
  }

  void update(const Objective::Parameter& parameter, ValueId gradient) {
    const Stored stored = graph_.stored[parameter.stored.index];
    const auto value = [&](const char* key) {
      const auto own = parameter.values.find(key);
      if (own != parameter.values.end()) return own->second;
      const auto common = objective_.values.find(key);
      return common == objective_.values.end() ? 0.0 : common->second;
    };
    type_ = stored.type.element;
    build_.scope = stored.path.substr(0, stored.path.rfind('.') == std::string::npos ? 0 : stored.path.rfind('.'));
    ValueId p = stored.value;
    const double decay = value("weight_decay");
    if (objective_.optimizer == "adamw") {
      if (decay != 0)
        p = build_.multiply(p,
                            build_.cast(build_.subtract(number(1, Type::f64), build_.multiply(rate_, decay)), type_));
    } else if (decay != 0) {
      gradient = build_.add(gradient, build_.multiply(p, decay));
    }
    const ValueId step = objective_.optimizer == "sgd"
                             ? sgd(parameter.stored, gradient, value("momentum"), value("nesterov") != 0)
                             : adam(parameter.stored, gradient, value("beta1"), value("beta2"), value("epsilon"));
    build_.append(UpdateOp{parameter.stored}, {build_.subtract(p, step)});
  }

  ValueId state(StoredId parameter, const char* name) {
    const Stored& stored = graph_.stored[parameter.index];
    const ValueType type = stored.type;
    build_.span = stored.span;
    const StoredId id = build_.stored(StoredKind::optimizer, stored.path + "." + name, type, {}, parameter);
    build_.span = objective_.span;
    return graph_.stored[id.index].value;
  }

  void store(ValueId old, ValueId now) {
    build_.append(UpdateOp{std::get<ReadOp>(graph_.node(graph_.value(old).producer).op).stored}, {now});
  }

  /// buf = momentum buf + g; step = rate (nesterov: g + momentum buf; else buf)
  ValueId sgd(StoredId parameter, ValueId g, double momentum, bool nesterov) {
    const ValueId rate = build_.cast(rate_, type_);
    if (momentum == 0) return build_.multiply(g, rate);
    const ValueId old = state(parameter, "momentum");
    const ValueId now = build_.add(build_.multiply(old, momentum), g);
    store(old, now);
    return build_.multiply(nesterov ? build_.add(g, build_.multiply(now, momentum)) : now, rate);
  }

  /// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2; step = rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 -
  /// beta2^t) + epsilon)
  ValueId adam(StoredId parameter, ValueId g, double beta1, double beta2, double epsilon) {
    const auto correction = [&](double beta) {
      return build_.subtract(number(1, Type::f64), build_.map(F::power, {number(beta, Type::f64), step_}));
    };
    const ValueId exact_rate = build_.divide(rate_, correction(beta1));
    const ValueId exact_scale = build_.map(F::rsqrt, {correction(beta2)});
    graph_.value(exact_rate).label = "corrected_rate";
    graph_.value(exact_scale).label = "root_correction";
    const ValueId rate = build_.cast(exact_rate, type_), scale = build_.cast(exact_scale, type_);
    const ValueId old_m = state(parameter, "moment1"), old_v = state(parameter, "moment2");
    const ValueId m = build_.add(build_.multiply(old_m, beta1), build_.multiply(g, 1 - beta1));
    const ValueId v = build_.add(build_.multiply(old_v, beta2), build_.multiply(build_.map(F::square, {g}), 1 - beta2));
    store(old_m, m);
    store(old_v, v);
    return build_.divide(build_.multiply(m, rate),
                         build_.add(build_.multiply(build_.map(F::sqrt, {v}), scale), epsilon));
  }

  Graph& graph_;
  const Objective objective_;
  GraphBuilder build_;
  ValueId rate_, step_;
  Type type_ = Type::f32;
};

}  // namespace

void append_optimizer(Graph& graph, const std::map<StoredId, ValueId>& gradients) { Optimizer(graph).run(gradients); }

}  // namespace mesh
