// emit_functions.h: routines as functions: one for each phase of the step, one for each block instance and direction,
// a real `for` for each `repeat`. Equal functions are written once.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/emit/emit_context.h"

namespace mesh {

struct EmittedFunction {
  std::string comment;  // "layer.attn, forward"
  std::string head;     // "void attn_forward(int64_t l)"
  std::string body;     // lines, indented for a member function of a struct
};

class FunctionTable {
 public:
  /// The statements of a routine; functions that it calls are added to the table, in the order of their first call. One
  /// that others begin with comes before them.
  std::string routine(EmitContext&, uint32_t routine);
  const std::vector<EmittedFunction>& functions() const { return functions_; }
  /// A function that is called by its own head's name.
  void add(EmittedFunction function) {
    functions_.push_back(std::move(function));
    calls_.emplace_back();
  }

 private:
  friend class RoutineEmitter;
  /// The call of a function with this body: one that exists already, or a new one.
  std::string call(EmitContext&, const std::string& name, const std::string& comment,
                   const std::vector<std::string>& turns, const std::string& body);
  std::vector<EmittedFunction> functions_;
  std::vector<std::string> calls_;
  std::map<uint32_t, std::string> forward_;  // by routine: the call of its forward part
};

}  // namespace mesh
