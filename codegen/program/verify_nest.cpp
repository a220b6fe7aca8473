#include <fmt/format.h>

#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/extent.h"
#include "codegen/program/print_program.h"
#include "codegen/program/step_messages.h"
#include "codegen/program/verify_steps.h"

namespace mesh {
namespace {

class NestVerifier : public StepMessages {
 public:
  using StepMessages::StepMessages;

  void run(const Nest& nest) {
    std::vector<bool> defined(nest.rows.size());
    for (const Pass& pass : nest.passes) {
      std::vector<LocalDim> dims = nest.outer;
      dims.insert(dims.end(), pass.inner.begin(), pass.inner.end());
      for (size_t i = 0; i < dims.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (dims[i].dim == dims[j].dim) say(fmt::format("iterates twice over {}", name(dims[i].dim)));
      scalars(pass, dims, defined);
      for (const Pass::Store& s : pass.stores) {
        written(s.scalar, s.to, dims, pass);
        if (dims_of(program_, s.to).size() - fixed(s.to) != dims.size())
          say(fmt::format("stores to {} without all of its dims", to_string(program_, s.to)));
      }
      for (const Pass::Accumulate& a : pass.accumulates) written(a.scalar, a.to, dims, pass);
      for (const Pass::Reduction& r : pass.reductions) {
        if (!is_entry(r.scalar, pass.scalars.size())) say("reduces a scalar that there is not");
        if (!is_entry(r.row, defined.size())) say("reduces to a row that there is not");
        else defined[static_cast<size_t>(r.row)] = true;
      }
    }
    for (const LoopBound& bound : nest.bounds) {
      stops(bound);
      const bool walks =
          std::ranges::count(nest.outer, bound.along) > 0 || std::ranges::any_of(nest.passes, [&](const Pass& pass) {
            return std::ranges::count(pass.inner, bound.along) > 0;
          });
      if (!walks) say(fmt::format("stops along {}, over which it does not iterate", name(bound.along.dim)));
    }
  }

 private:
  /// Dims of the buffer of which the access has one element.
  static size_t fixed(const Access& access) {
    return static_cast<size_t>(
        std::count_if(access.maps.begin(), access.maps.end(), [](const IndexMap& map) { return !map.along; }));
  }

  void scalars(const Pass& pass, const std::vector<LocalDim>& dims, const std::vector<bool>& defined) {
    for (size_t i = 0; i < pass.scalars.size(); ++i) {
      const Scalar& scalar = pass.scalars[i];
      if (const auto* load = std::get_if<Scalar::Load>(&scalar.what)) {
        readable(load->access, dims);
        if (program_.buffer(load->access.buffer).type != scalar.type)
          say(fmt::format("loads {} as another type", to_string(program_, load->access)));
      } else if (const auto* row = std::get_if<Scalar::Row>(&scalar.what)) {
        if (!is_entry(row->row, defined.size()) || !defined[static_cast<size_t>(row->row)])
          say(fmt::format("reads row{} before a pass has reduced it", row->row));
      } else if (const auto* index = std::get_if<Scalar::Index>(&scalar.what)) {
        if (std::none_of(dims.begin(), dims.end(), [&](const LocalDim& d) { return d.dim == index->dim; }))
          say(fmt::format("asks for the position along {}, over which it does not iterate", name(index->dim)));
      } else if (const auto* random = std::get_if<Scalar::Random>(&scalar.what)) {
        for (const auto& [dim, turn] : random->dims)
          if (!turn &&
              std::none_of(dims.begin(), dims.end(), [&, &of = dim](const LocalDim& d) { return d.dim == of; }))
            say(fmt::format("draws numbers along {}, over which it does not iterate", name(dim)));
        if (scalar.type != Type::f32 && scalar.type != Type::f64)
          say(fmt::format("draws numbers of {}", meshrt::name_of(scalar.type)));
      } else if (const auto* apply = std::get_if<Scalar::Apply>(&scalar.what)) {
        if (apply->operands.size() != static_cast<size_t>(info(apply->function).operands))
          say(fmt::format("gives {} operands to {}", apply->operands.size(), info(apply->function).name));
        bool entries = true;
        for (int operand : apply->operands) entries = entries && is_entry(operand, i);
        if (!entries) say("computes a scalar from one that comes later");
        else types(pass, scalar, *apply);
      }
    }
  }

  /// Operands have the result's type, those of comparisons each other's; a condition is bool.
  void types(const Pass& pass, const Scalar& scalar, const Scalar::Apply& apply) {
    if (apply.operands.empty()) return;
    const auto type = [&](size_t i) { return pass.scalars[static_cast<size_t>(apply.operands[i])].type; };
    if (apply.function == MapFunction::cast) {
      if ((is_narrow(scalar.type) && computed_in(scalar.type) != type(0)) ||
          (is_narrow(type(0)) && computed_in(type(0)) != scalar.type))
        say(fmt::format("casts {} to {} at once", meshrt::name_of(type(0)), meshrt::name_of(scalar.type)));
      return;
    }
    const bool where = apply.function == MapFunction::where;
    if (!where && (is_narrow(scalar.type) || is_narrow(type(0))))
      say(fmt::format("computes {} in {}", info(apply.function).name, meshrt::name_of(scalar.type)));
    const bool compares = info(apply.function).to_boolean;
    bool good = !where || type(0) == Type::boolean;
    for (size_t i = where ? 1 : 0; i < apply.operands.size(); ++i)
      good = good && type(i) == (compares ? type(0) : scalar.type);
    if (!good) say(fmt::format("mixes types in {}", info(apply.function).name));
  }

  /// What is written has the nest's own parts: nothing of it lies on another rank.
  void written(int scalar, const Access& to, const std::vector<LocalDim>& dims, const Pass& pass) {
    if (!is_entry(scalar, pass.scalars.size())) return say("writes a scalar that there is not");
    if (pass.scalars[static_cast<size_t>(scalar)].type != program_.buffer(to.buffer).type)
      say(fmt::format("writes another type to {}", to_string(program_, to)));
    for (const IndexMap& map : to.maps) {
      if (map.outside) say(fmt::format("writes elements of {} that may be missing", to_string(program_, to)));
      mapped(to, map, dims);
    }
    for (size_t position = to.turns.size(); position < program_.buffer(to.buffer).dims.size(); ++position) {
      const LocalDim& held = program_.buffer(to.buffer).dims[position];
      // Between margins the own part is written.
      if (!map_at(to, position) && std::find(dims.begin(), dims.end(), without_margin(held)) == dims.end())
        say(fmt::format("writes {} without iterating over its part of {}", to_string(program_, to), name(held.dim)));
    }
  }
};

}  // namespace

std::vector<std::string> verify_nest(const Program& program, const Step& step, const Nest& nest) {
  NestVerifier verifier(program, step);
  verifier.run(nest);
  return std::move(verifier.messages);
}

}  // namespace mesh
