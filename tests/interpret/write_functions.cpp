// write_functions.cpp: writes, as C++, a loop for every elementwise function and type exactly as map_function.cpp says
// it is emitted. functions_test.cpp compares the interpreter's with them.
#include <fmt/format.h>

#include "codegen/interpret/functions.h"

using mesh::MapFunction;
using meshrt::Type;

namespace {

const char* cpp_name(Type type) {
  switch (type) {
    case Type::f32: return "float";
    case Type::f64: return "double";
    case Type::i32: return "int32_t";
    case Type::i64: return "int64_t";
    case Type::u8: return "uint8_t";
    default: return "bool";
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

void write(MapFunction function, Type operand, Type result) {
  const mesh::MapFunctionInfo& about = mesh::info(function);
  std::string text(about.cpp);
  const char* const pointers[] = {"a", "b", "c"};
  for (int i = 0; i < about.operands; ++i) {
    const Type type = function == MapFunction::where && i == 0 ? Type::boolean : operand;
    text = replaced(text, fmt::format("${}", i),
                    fmt::format("static_cast<const {}*>({})[i]", cpp_name(type), pointers[i]));
  }
  text = replaced(text, "$type", cpp_name(result));
  fmt::print(
      "    {{mesh::MapFunction({}), meshrt::Type({}), meshrt::Type({}), []([[maybe_unused]] const void* a, "
      "[[maybe_unused]] "
      "const void* b, [[maybe_unused]] const void* c, void* y, int64_t n) {{\n"
      "       for (int64_t i = 0; i < n; ++i) static_cast<{}*>(y)[i] = static_cast<{}>({});\n     }}}},\n",
      int(function), int(operand), int(result), cpp_name(result), cpp_name(result), text);
}

}  // namespace

int main() {
  const Type types[] = {Type::f32, Type::f64, Type::i32, Type::i64, Type::u8, Type::boolean};
  fmt::print(
      "#include \"tests/interpret/emitted_functions.h\"\n\n#include \"meshrt/activation.h\"\n#include "
      "\"meshrt/math.h\"\n#include \"meshrt/types.h\"\n\n");
  fmt::print(
      "const std::vector<EmittedFunction>& emitted_functions() {{\n  static const std::vector<EmittedFunction> "
      "all{{\n");
  for (int f = 0; f <= int(MapFunction::copy); ++f) {
    const auto function = MapFunction(f);
    for (const Type operand : types)
      for (const Type result : types) {
        const bool fits = function == MapFunction::cast     ? true
                          : mesh::info(function).to_boolean ? result == Type::boolean
                                                            : result == operand;
        if (fits && mesh::chunk_kernels().function(function, operand, result)) write(function, operand, result);
      }
  }
  fmt::print("  }};\n  return all;\n}}\n");
}
