#include "files/parsed_json.h"

#include <nlohmann/json.hpp>

namespace meshrt {

nlohmann::json parsed_json(std::string_view text) { return nlohmann::json::parse(text, nullptr, false); }

}  // namespace meshrt
