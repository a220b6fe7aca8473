// syntax.h: ANTLR's headers, parsed once for the files that use them.
#include <antlr4-runtime.h>
#include <fmt/format.h>
