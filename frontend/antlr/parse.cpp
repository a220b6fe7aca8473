// Lexes and parses with the code that ANTLR makes of grammar/Mesh.g4. This folder alone sees ANTLR; it is compiled as
// C++17, without warnings, for the generated code's sake.
#include "frontend/parse.h"

#include <antlr4-runtime.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <utility>

#include "frontend/antlr/build_ast.h"
#include "frontend/antlr/recovery.h"
#include "frontend/utf8.h"
#include "MeshLexer.h"
#include "MeshParser.h"

namespace mesh {

namespace {

using syntax::MeshLexer;
using syntax::MeshParser;

// ---- lexing -------------------------------------------------------------------------------------

TokenKind kind_of(std::size_t type, std::string_view text) {
  switch (type) {
    case MeshLexer::NUMBER: return TokenKind::number;
    case MeshLexer::STRING: return TokenKind::string;
    case MeshLexer::NL: return TokenKind::newline;
    case MeshLexer::UNTERMINATED: return TokenKind::unterminated;
    case MeshLexer::UNKNOWN: return TokenKind::unknown;
    case antlr4::Token::EOF: return TokenKind::end;
    default: break;
  }
  const bool letter = text.front() == '_' || std::isalpha(static_cast<unsigned char>(text.front())) != 0;
  return letter ? TokenKind::word : TokenKind::symbol;
}

// A token of the parser: its start and stop are bytes of the file, its text is the original's.
std::vector<std::unique_ptr<antlr4::Token>> parser_tokens(const std::vector<Token>& tokens) {
  std::map<std::string, std::size_t, std::less<>> symbols;  // of the tokens that `arrange` put in
  const auto& vocabulary = MeshParser(nullptr).getVocabulary();
  for (std::size_t type = 1; type <= vocabulary.getMaxTokenType(); ++type)
    symbols[vocabulary.getLiteralName(type)] = type;
  std::vector<std::unique_ptr<antlr4::Token>> result;
  for (const Token& token : tokens) {
    const bool end = token.kind == TokenKind::end;
    const std::size_t type = end               ? antlr4::Token::EOF
                             : token.type == 0 ? symbols.at("'" + std::string(token.text) + "'")
                                               : token.type;
    auto made = std::make_unique<antlr4::CommonToken>(type, std::string(token.text));
    made->setStartIndex(token.span.begin);
    made->setStopIndex(std::size_t{token.span.end} - 1);
    result.push_back(std::move(made));
  }
  return result;
}

// ---- driving ------------------------------------------------------------------------------------

// One attempt over arranged tokens; its errors go to `sink`.
Ast attempt(FileId file, const Arranged& arranged, antlr4::atn::PredictionMode mode, DiagnosticSink& sink,
            antlr4::ANTLRErrorListener* listener = nullptr) {
  antlr4::ListTokenSource source(parser_tokens(arranged.tokens));
  antlr4::CommonTokenStream stream(&source);
  MeshParser parser(&stream);
  parser.removeErrorListeners();
  if (listener != nullptr) parser.addErrorListener(listener);
  parser.setErrorHandler(recover_by_statements(arranged, sink));
  parser.getInterpreter<antlr4::atn::ParserATNSimulator>()->setPredictionMode(mode);
  DiagnosticSink built;
  Ast ast = build_ast(file, parser.file(), built);
  for (Diagnostic& one : built.diagnostics()) {
    if (!arranged.was_reported(one.span())) sink.add(std::move(one));
  }
  return ast;
}

class AmbiguityListener : public antlr4::BaseErrorListener {
 public:
  std::vector<std::string> found;

  void reportAmbiguity(antlr4::Parser* parser, const antlr4::dfa::DFA& dfa, std::size_t begin, std::size_t end, bool,
                       const antlrcpp::BitSet&, antlr4::atn::ATNConfigSet*) override {
    const std::string& rule = parser->getRuleNames()[dfa.atnStartState->ruleIndex];
    found.push_back(rule + ": " + parser->getTokenStream()->getText(antlr4::misc::Interval(begin, end)));
  }
};

}  // namespace

Lexed lex(FileId file, const SourceMap& sources) {
  // ANTLR counts characters, spans count bytes; stray bytes become U+FFFD, which no rule knows.
  const std::string_view text = sources.text(file);
  std::string clean;
  std::vector<std::uint32_t> offsets;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = decode_utf8(text, at);
    const bool byte_order_mark = at == 0 && character.value == 0xFEFF;
    clean += byte_order_mark ? " " : encode_utf8(character.value);
    offsets.push_back(static_cast<std::uint32_t>(at));
    at += character.bytes;
  }
  offsets.push_back(static_cast<std::uint32_t>(text.size()));

  antlr4::ANTLRInputStream input(clean);
  MeshLexer lexer(&input);
  lexer.removeErrorListeners();
  Lexed result;
  for (;;) {
    const std::unique_ptr<antlr4::Token> token = lexer.nextToken();
    const std::size_t type = token->getType();
    const bool end = type == antlr4::Token::EOF;
    const std::uint32_t first = offsets.at(std::min(token->getStartIndex(), offsets.size() - 1));
    const std::uint32_t last = end ? first : offsets.at(token->getStopIndex() + 1);
    const Span span{file, first, last};
    if (type == MeshLexer::COMMENT) {
      result.comments.push_back({span});
      continue;
    }
    // A string without an end is parsed as one, so that its statement stays whole.
    const TokenKind kind = kind_of(type, sources.text(span));
    const std::size_t shown = kind == TokenKind::unterminated ? std::size_t{MeshLexer::STRING} : type;
    result.tokens.push_back(Token{kind, static_cast<std::uint32_t>(shown), sources.text(span), span});
    if (end) return result;
  }
}

Ast parse(FileId file, const SourceMap& sources, DiagnosticSink& sink) {
  Lexed lexed = lex(file, sources);
  const Arranged arranged = arrange(std::move(lexed.tokens), sources, sink);
  // The fast prediction mode reads every correct file; its errors are not always the true ones.
  DiagnosticSink fast;
  Ast ast = attempt(file, arranged, antlr4::atn::PredictionMode::SLL, fast);
  if (fast.has_errors()) ast = attempt(file, arranged, antlr4::atn::PredictionMode::LL, sink);
  ast.comments = std::move(lexed.comments);
  return ast;
}

std::vector<std::string> find_ambiguities(FileId file, const SourceMap& sources) {
  DiagnosticSink ignored;
  AmbiguityListener listener;
  const Arranged arranged = arrange(lex(file, sources).tokens, sources, ignored);
  attempt(file, arranged, antlr4::atn::PredictionMode::LL_EXACT_AMBIG_DETECTION, ignored, &listener);
  return listener.found;
}

}  // namespace mesh
