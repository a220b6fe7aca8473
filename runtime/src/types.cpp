#include "meshrt/types.h"

namespace meshrt {

const char* name_of(Type type) {
  switch (type) {
    case Type::f32: return "f32";
    case Type::f64: return "f64";
    case Type::bf16: return "bf16";
    case Type::f16: return "f16";
    case Type::i32: return "i32";
    case Type::i64: return "i64";
    case Type::u8: return "u8";
    case Type::boolean: return "bool";
  }
  return "?";
}

const char* name_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::sum: return "sum";
    case Reduce::max: return "max";
    case Reduce::min: return "min";
  }
  return "?";
}

}  // namespace meshrt
