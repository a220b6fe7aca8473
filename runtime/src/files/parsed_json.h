// parsed_json.h: JSON as it is read, from one place: each file that holds a parser of its own takes seconds to compile.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace meshrt {

/// Discarded (`is_discarded()`) where the text is not JSON.
nlohmann::json parsed_json(std::string_view text);

}  // namespace meshrt
