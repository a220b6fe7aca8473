// codegen.h: what nearly every file of the compiler includes, parsed once for all of them. Files still include what
// they use: the build without precompiled headers (-Db_pch=false) and clang-tidy read those lines. A compiler cache has
// to heed comments (CCACHE_COMMENTS): #pragma once compares bytes, those of comments too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/graph/graph.h"
