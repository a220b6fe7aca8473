// commands.h: what nearly every command includes, parsed once for all of them.
#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/compile.h"
