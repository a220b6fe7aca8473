// emit_scalar.h: the scalar computation of one pass of a loop nest as C++ expressions. A value that is used once is
// written where it is used; one used more often, or that an outer loop can compute, becomes a named constant there.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "codegen/emit/emit_context.h"
#include "codegen/emit/nest_loops.h"

namespace mesh {

/// Declarations, by the loop in whose body they belong: depth 0 before all loops, 1 inside the outermost, ...
using Preludes = std::vector<std::vector<std::string>>;

/// Names of rows ("(b * seq + s) * embed") that the nest has declared.
class RowNames {
 public:
  RowNames(EmitContext& context, Scope& scope, const NestLoops& loops)
      : context_(context), scope_(scope), loops_(loops) {}
  /// "x[row + e]"; declares the row in `preludes` where that reads better.
  std::string reference(const Access&, size_t pass, Preludes& preludes);
  /// Another place than its own to which the nest adds what it adds to the buffer.
  void add_in(BufferId buffer, std::string place) { places_[buffer] = std::move(place); }
  /// Forgets what was declared inside a pass's own loops: they end.
  void leave_loops();

 private:
  EmitContext& context_;
  Scope& scope_;
  const NestLoops& loops_;
  std::map<BufferId, std::string> places_;
  std::map<std::string, std::string> names_;  // row -> name
  std::vector<std::string> own_;              // rows declared inside the pass's own loops
};

class ScalarEmitter {
 public:
  /// `rows` are the names of the nest's row values.
  ScalarEmitter(EmitContext&, Scope&, const NestLoops&, RowNames&, const Nest&, size_t pass,
                const std::vector<std::string>& rows);

  /// Generates what `targets` (indices of scalars, one entry for each use) need: declarations go to `preludes`; the
  /// expression of each is then known to `text`.
  void generate(const std::vector<int>& targets, Preludes& preludes);
  const std::string& text(int scalar) const { return written_[static_cast<size_t>(scalar)].text; }

 private:
  struct Expression {
    std::string text;
    int precedence = 0;     // of its outermost operator; names and calls bind tightest
    bool constant = false;  // depends on nothing but the step
    bool named = false;
  };
  size_t depth_of(const Scalar&) const;
  Expression write(int scalar, Preludes&);
  std::string draw(const Scalar::Random&, Type, Preludes&);
  Expression apply(const Scalar&, const Scalar::Apply&, Preludes&);
  Expression compose(const Scalar&, const Scalar::Apply&) const;
  bool chooses_computed(const Scalar&, const Scalar::Apply&) const;
  std::set<int> overwritten_loads(const std::vector<int>& uses, const std::vector<size_t>& used_at) const;
  void bind(int scalar, Preludes&);
  std::string name_for(int scalar) const;

  EmitContext& context_;
  Scope& scope_;
  const NestLoops& loops_;
  RowNames& row_names_;
  const Pass& pass_;
  size_t index_;      // of the pass
  size_t innermost_;  // loops around its innermost statements
  const std::vector<std::string>& rows_;
  std::vector<Expression> written_;
  std::vector<size_t> depths_;
};

}  // namespace mesh
