#include "codegen/optimizer/optimizer.h"

#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/optimizer/loss_scale.h"
#include "codegen/optimizer/norms.h"
#include "codegen/optimizer/write.h"

namespace mesh {
namespace {

using F = MapFunction;

class Optimizer {
 public:
  explicit Optimizer(Graph& graph) : graph_(graph), objective_(*graph.objective), build_(graph) {
    build_.part = Part::update;
    build_.span = objective_.span;
    // Numbers of the step are computed in f64: 1 - 0.999^t would lose half its digits in f32.
    common_rate_ = build_.value(RateOp(objective_.rate), {});
    step_ = step_taken(build_);
  }

  void run(std::map<StoredId, ValueId> gradients) {
    finite_ = is_finite(build_, gradients);
    if (objective_.values.count("clip")) clip(gradients);
    for (const Objective::Parameter& parameter : objective_.parameters)
      if (!graph_.stored[parameter.stored.index].frozen && gradients.count(parameter.stored))
        update(parameter, gradients.at(parameter.stored));
    build_.scope = "";
    update_loss_scale(build_, finite_);
  }

 private:
  ValueId number(double value, Type type) { return build_.literal(value, type); }

  /// torch.nn.utils.clip_grad_norm_: all gradients times min(1, clip / (norm + 1e-6)).
  void clip(std::map<StoredId, ValueId>& gradients) {
    const ValueId norm = gradient_norm(build_, gradients);
    if (!norm) return;
    const Type type = graph_.type(norm).element;
    const ValueId scale = build_.map(
        F::minimum,
        {build_.divide(number(objective_.values.at("clip"), type), build_.add(norm, 1e-6)), number(1, type)});
    graph_.value(scale).label = "clip_scale";
    for (auto& [id, gradient] : gradients) gradient = build_.multiply(gradient, scale);
  }

  /// What a parameter's group or the optimizer says of it.
  struct Settings {
    const std::map<std::string, double>& own;
    const std::map<std::string, double>& common;
    double operator()(const char* key) const {
      for (const auto* values : {&own, &common})
        if (const auto found = values->find(key); found != values->end()) return found->second;
      return 0;
    }
  };

  void update(const Objective::Parameter& parameter, ValueId gradient) {
    const Stored stored = graph_.stored[parameter.stored.index];
    const Settings of{parameter.values, objective_.values};
    const std::string& optimizer = objective_.optimizer;
    type_ = computed_in(stored.type.element);
    const std::string& path = graph_.stored[parameter_of(graph_, parameter.stored).index].path;
    build_.scope = path.substr(0, path.rfind('.') == std::string::npos ? 0 : path.rfind('.'));
    rate_ = parameter.rate ? build_.value(RateOp(*parameter.rate), {}) : common_rate_;
    ValueId p = build_.computed(stored.value);
    const double decay = of("weight_decay");
    if (decay != 0 && (optimizer == "adamw" || optimizer == "lion"))
      p = build_.multiply(p, build_.cast(build_.subtract(number(1, Type::f64), build_.multiply(rate_, decay)), type_));
    else if (decay != 0) gradient = build_.add(gradient, build_.multiply(p, decay));
    const ValueId next = build_.subtract(p, step(parameter.stored, gradient, of));
    write(build_, parameter.stored, if_finite(build_, finite_, parameter.stored, next));
  }

  ValueId step(StoredId parameter, ValueId gradient, const Settings& of) {
    const std::string& optimizer = objective_.optimizer;
    if (optimizer == "sgd") return sgd(parameter, gradient, of("momentum"), of("nesterov") != 0);
    if (optimizer == "adam" || optimizer == "adamw") return adam(parameter, gradient, of);
    if (optimizer == "rmsprop") return rmsprop(parameter, gradient, of);
    if (optimizer == "lion") return lion(parameter, gradient, of("beta1"), of("beta2"));
    if (optimizer == "adafactor") return adafactor(parameter, gradient, of);
    internal_error("there is no optimizer " + optimizer);
  }

  ValueId state(StoredId parameter, const char* name) {
    return state(parameter, name, graph_.stored[parameter.index].type.dims);
  }
  ValueId state(StoredId parameter, const char* name, const std::vector<DimId>& dims) {
    const Stored stored = graph_.stored[parameter.index];
    build_.span = stored.span;
    const StoredId id = build_.stored(StoredKind::optimizer, stored.path + "." + name, {type_, {}, dims}, {},
                                      parameter_of(graph_, parameter));
    graph_.stored[id.index].stacked = stored.stacked;
    build_.span = objective_.span;
    return graph_.stored[id.index].value;
  }

  void store(ValueId old, ValueId now) {
    const StoredId of = std::get<ReadOp>(graph_.node(graph_.value(old).producer).op).stored;
    build_.append(UpdateOp{of}, {if_finite(build_, finite_, of, now)});
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

  /// old = share * old + (1 - share) * now
  ValueId average(ValueId old, double share, ValueId now) {
    const ValueId result = build_.add(build_.multiply(old, share), build_.multiply(now, 1 - share));
    store(old, result);
    return result;
  }

  /// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2; step = rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 -
  /// beta2^t) + epsilon); without the corrections rate m / (sqrt(v) + epsilon).
  ValueId adam(StoredId parameter, ValueId g, const Settings& of) {
    const ValueId old_m = state(parameter, "moment1"), old_v = state(parameter, "moment2");
    const ValueId m = average(old_m, of("beta1"), g);
    const ValueId v = average(old_v, of("beta2"), build_.map(F::square, {g}));
    const ValueId root = build_.map(F::sqrt, {v});
    if (of("bias_correction") == 0)
      return build_.divide(build_.multiply(m, build_.cast(rate_, type_)), build_.add(root, of("epsilon")));
    const auto correction = [&](double beta) {
      return build_.subtract(number(1, Type::f64), build_.map(F::power, {number(beta, Type::f64), step_}));
    };
    const ValueId exact_rate = build_.divide(rate_, correction(of("beta1")));
    const ValueId exact_scale = build_.map(F::rsqrt, {correction(of("beta2"))});
    graph_.value(exact_rate).label = "corrected_rate";
    graph_.value(exact_scale).label = "root_correction";
    const ValueId rate = build_.cast(exact_rate, type_), scale = build_.cast(exact_scale, type_);
    return build_.divide(build_.multiply(m, rate), build_.add(build_.multiply(root, scale), of("epsilon")));
  }

  /// v = alpha v + (1 - alpha) g^2; g / (sqrt(v) + epsilon), centered: v less the square of g's average; with momentum
  /// added up in a buffer as sgd does.
  ValueId rmsprop(StoredId parameter, ValueId g, const Settings& of) {
    ValueId v = average(state(parameter, "moment2"), of("alpha"), build_.map(F::square, {g}));
    if (of("centered") != 0) {
      const ValueId m = average(state(parameter, "moment1"), of("alpha"), g);
      v = build_.subtract(v, build_.map(F::square, {m}));
    }
    const ValueId scaled = build_.divide(g, build_.add(build_.map(F::sqrt, {v}), of("epsilon")));
    return sgd(parameter, scaled, of("momentum"), false);
  }

  /// step = rate sign(beta1 m + (1 - beta1) g); then m = beta2 m + (1 - beta2) g
  ValueId lion(StoredId parameter, ValueId g, double beta1, double beta2) {
    const ValueId old = state(parameter, "moment1");
    const ValueId ahead = build_.add(build_.multiply(old, beta1), build_.multiply(g, 1 - beta1));
    average(old, beta2, g);
    return build_.multiply(build_.map(F::sign, {ahead}), build_.cast(rate_, type_));
  }

  // ---- adafactor: every layer of a `repeat` by itself

  ValueId mean(ValueId x, const std::vector<DimId>& dims) {
    double count = 1;
    for (DimId dim : dims) count *= static_cast<double>(graph_.dim(dim).size);
    return build_.multiply(build_.reduce(Reduce::sum, x, dims), 1 / count);
  }
  ValueId root_mean_square(ValueId x, const std::vector<DimId>& dims) {
    return build_.map(F::sqrt, {mean(build_.map(F::square, {x}), dims)});
  }

  /// The largest dim and the next one, the first of equals; nothing where they are too small to be worth it.
  std::vector<DimId> factored_dims(std::vector<DimId> dims, const Settings& of) const {
    const auto size = [&](DimId dim) { return graph_.dim(dim).size; };
    std::stable_sort(dims.begin(), dims.end(), [&](DimId a, DimId b) { return size(a) > size(b); });
    if (of("factored") == 0 || dims.size() < 2 || static_cast<double>(size(dims[1])) < of("smallest_factored"))
      return {};
    dims.resize(2);
    return dims;
  }

  /// v = d v + (1 - d) (g^2 + epsilon) with d = 1 - t^-decay, of the two largest dims only its means over each; x = g /
  /// sqrt(v), divided by its root mean square over threshold where that is above 1; step = rate x, times the root mean
  /// square of the parameter.
  ValueId adafactor(StoredId parameter, ValueId g, const Settings& of) {
    const Stored stored = graph_.stored[parameter.index];
    const std::vector<DimId> all = stored.type.dims,
                             own(all.begin() + static_cast<std::ptrdiff_t>(stored.stacked), all.end());
    const ValueId fresh = build_.map(F::power, {step_, number(-of("decay"), Type::f64)});
    const ValueId now = build_.cast(fresh, type_),
                  kept = build_.cast(build_.subtract(number(1, Type::f64), fresh), type_);
    const auto moment = [&](const char* name, const std::vector<DimId>& dims, ValueId value) {
      const ValueId old = state(parameter, name, dims);
      const ValueId result = build_.add(build_.multiply(old, kept), build_.multiply(value, now));
      store(old, result);
      return result;
    };
    const auto without = [&](DimId dim) {
      std::vector<DimId> dims = all;
      std::erase(dims, dim);
      return dims;
    };
    const ValueId square = build_.add(build_.map(F::square, {g}), of("epsilon"));
    ValueId x;
    if (const std::vector<DimId> dims = factored_dims(own, of); !dims.empty()) {
      const ValueId rows = moment("row_moment", without(dims[0]), mean(square, {dims[0]}));
      const ValueId columns = moment("column_moment", without(dims[1]), mean(square, {dims[1]}));
      const ValueId share = build_.divide(rows, mean(rows, {dims[1]}));
      x = build_.multiply(build_.multiply(g, build_.map(F::rsqrt, {share})), build_.map(F::rsqrt, {columns}));
    } else {
      x = build_.multiply(g, build_.map(F::rsqrt, {moment("moment2", all, square)}));
    }
    const ValueId excess = build_.multiply(root_mean_square(x, own), 1 / of("threshold"));
    ValueId rate = build_.divide(build_.cast(rate_, type_), build_.map(F::maximum, {excess, number(1, type_)}));
    if (of("scale_by_parameter") != 0) {
      const ValueId scale = root_mean_square(build_.computed(stored.value), own);
      rate = build_.multiply(rate, build_.map(F::maximum, {scale, number(of("smallest_scale"), type_)}));
    }
    const ValueId step = build_.multiply(x, rate);
    return of("beta1") == 0 ? step : average(state(parameter, "moment1"), of("beta1"), step);
  }

  Graph& graph_;
  const Objective objective_;
  GraphBuilder build_;
  ValueId common_rate_, rate_, step_;
  ValueId finite_;  // whether the step is taken; unset: it is
  Type type_ = Type::f32;
};

}  // namespace

void append_optimizer(Graph& graph, const std::map<StoredId, ValueId>& gradients) { Optimizer(graph).run(gradients); }

}  // namespace mesh
