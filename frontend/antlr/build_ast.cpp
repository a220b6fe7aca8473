#include "frontend/antlr/build_ast.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "frontend/syntax_errors.h"

namespace mesh {

namespace {

using syntax::MeshParser;

// f of each context that parsed.
template <class Context, class F>
auto each(const std::vector<Context*>& contexts, F f) {
  std::vector<decltype(f(contexts.front()))> result;
  for (Context* context : contexts) {
    if (context->exception == nullptr) result.push_back(f(context));
  }
  return result;
}

template <class T, class Context>
T* as(Context* context) {
  return dynamic_cast<T*>(context);
}

// Each function copies one rule of the grammar. Elements that failed are left out, so what is copied is complete.
class Builder {
 public:
  Builder(FileId file, DiagnosticSink& sink) : file_(file), sink_(sink) {}

  Ast file(MeshParser::FileContext* context) {
    Ast ast;
    ast.file = file_;
    ast.decls = each(context->decl(), [&](auto* one) { return ast::Decl{decl(one), span(one)}; });
    check_place_of_version(ast.decls, sink_);
    return ast;
  }

 private:
  using Parser = MeshParser;

  Span span(const antlr4::ParserRuleContext* context) const { return span(context->start, context->stop); }
  Span span(const antlr4::Token* first, const antlr4::Token* last) const {
    return Span{file_, static_cast<std::uint32_t>(first->getStartIndex()),
                static_cast<std::uint32_t>(last->getStopIndex() + 1)};
  }
  Span span(antlr4::tree::TerminalNode* node) const { return span(node->getSymbol(), node->getSymbol()); }

  // ---- names

  ast::Name name(Parser::NameContext* context) const { return {context->getText(), span(context)}; }
  ast::Name word(antlr4::tree::ParseTree* leaf) const {
    return {leaf->getText(), span(as<antlr4::tree::TerminalNode>(leaf))};
  }
  std::optional<ast::Name> maybe(Parser::NameContext* context) const {
    return context == nullptr ? std::nullopt : std::optional(name(context));
  }
  std::vector<ast::Name> names(const std::vector<Parser::NameContext*>& contexts) const {
    return each(contexts, [&](auto* one) { return name(one); });
  }
  std::vector<ast::Name> names(Parser::NamesContext* context) const {
    return context == nullptr ? std::vector<ast::Name>{} : names(context->name());
  }
  ast::Path path(Parser::PathContext* context) const { return {names(context->name()), span(context)}; }
  ast::Glob glob(Parser::GlobContext* context) const {
    return {each(context->part(), [&](auto* one) { return ast::Name{one->getText(), span(one)}; }), span(context)};
  }
  std::vector<ast::Glob> globs(Parser::GlobsContext* context) const {
    return context == nullptr ? std::vector<ast::Glob>{} : each(context->glob(), [&](auto* one) { return glob(one); });
  }

  ast::Number number(antlr4::tree::TerminalNode* node) {
    ast::Number result{node->getText(), 0, span(node)};
    std::string digits;
    for (const char c : result.text) digits += c == '_' ? "" : std::string(1, c);
    result.value = std::strtod(digits.c_str(), nullptr);
    check_syntax(result, sink_);
    return result;
  }

  static std::string unquoted(antlr4::tree::TerminalNode* node) {
    const std::string text = node->getText();
    const bool closed = text.size() > 1 && text.back() == '"';
    return text.substr(1, text.size() - (closed ? 2 : 1));
  }

  // ---- expressions

  ast::ExprPtr expr(Parser::ExprContext* context) {
    if (context == nullptr) return nullptr;
    return std::make_unique<ast::Expr>(ast::Expr{node(context), span(context)});
  }
  std::vector<ast::ExprPtr> exprs(const std::vector<Parser::ExprContext*>& contexts) {
    return each(contexts, [&](auto* one) { return expr(one); });
  }

  /// A reserved word where it stands for a value: a name that nothing else has.
  ast::ExprPtr word_itself(Parser::NothingContext* context) const {
    const Span where = span(context);
    return std::make_unique<ast::Expr>(ast::Expr{ast::Path{{{context->getText(), where}}, where}, where});
  }

  template <class Context>
  ast::Expr::Node binary(Context* context) {
    static const std::map<std::string, ast::BinaryOp> ops = {
        {"+", ast::BinaryOp::add},    {"-", ast::BinaryOp::subtract},  {"*", ast::BinaryOp::multiply},
        {"/", ast::BinaryOp::divide}, {"%", ast::BinaryOp::remainder}, {"^", ast::BinaryOp::power}};
    const ast::Name op = word(context->children[1]);
    return ast::Binary{ops.at(op.text), expr(context->expr(0)), expr(context->expr(1)), op.span};
  }

  ast::Expr::Node compare(Parser::CompareExprContext* context) {
    static const std::map<std::string, ast::CompareOp> ops = {
        {"==", ast::CompareOp::equal},         {"!=", ast::CompareOp::not_equal}, {"<=", ast::CompareOp::less_equal},
        {">=", ast::CompareOp::greater_equal}, {"<", ast::CompareOp::less},       {">", ast::CompareOp::greater}};
    const ast::Name op = word(context->children[1]);
    ast::Compare result{ops.at(op.text), expr(context->expr(0)), expr(context->expr(1)), op.span};
    check_syntax(result, sink_);
    return result;
  }

  template <class Context>
  ast::Expr::Node logical(ast::LogicalOp op, Context* context) {
    return ast::Logical{op, expr(context->expr(0)), expr(context->expr(1)), word(context->children[1]).span};
  }

  ast::Expr::Node node(Parser::ExprContext* any) {
    if (auto* c = as<Parser::IndexExprContext>(any)) return ast::Index{expr(c->expr()), items(c->item())};
    if (auto* c = as<Parser::CallExprContext>(any)) return call(c);
    if (auto* c = as<Parser::PowerExprContext>(any)) return binary(c);
    if (auto* c = as<Parser::ProductExprContext>(any)) return binary(c);
    if (auto* c = as<Parser::SumExprContext>(any)) return binary(c);
    if (auto* c = as<Parser::CompareExprContext>(any)) return compare(c);
    if (auto* c = as<Parser::NegateExprContext>(any)) return ast::Unary{ast::UnaryOp::negate, expr(c->expr())};
    if (auto* c = as<Parser::NotExprContext>(any)) return ast::Unary{ast::UnaryOp::logical_not, expr(c->expr())};
    if (auto* c = as<Parser::AndExprContext>(any)) return logical(ast::LogicalOp::logical_and, c);
    if (auto* c = as<Parser::OrExprContext>(any)) return logical(ast::LogicalOp::logical_or, c);
    if (auto* c = as<Parser::GroupExprContext>(any)) return ast::Group{exprs(c->expr())};
    auto* atom = as<Parser::AtomExprContext>(any);
    if (atom->path() != nullptr) return path(atom->path());
    if (atom->NUMBER() != nullptr) return number(atom->NUMBER());
    if (atom->STRING() != nullptr) return ast::String{unquoted(atom->STRING())};
    return ast::Bool{atom->getText() == "true"};
  }

  // The grammar lets anything be called; the language calls a path, a path with brackets, and `index(dim)`.
  ast::Expr::Node call(Parser::CallExprContext* context) {
    ast::ExprPtr callee = expr(context->expr());
    std::vector<ast::Argument> arguments = each(context->argument(), [&](auto* one) {
      return ast::Argument{maybe(one->name()), expr(one->expr()), span(one)};
    });
    check_syntax(arguments, sink_);
    if (auto* path = std::get_if<ast::Path>(&callee->node))
      return ast::Call{std::move(*path), {}, std::move(arguments)};
    if (auto* index = std::get_if<ast::Index>(&callee->node)) {
      if (auto* path = std::get_if<ast::Path>(&index->value->node)) {
        return ast::Call{std::move(*path), std::move(index->items), std::move(arguments)};
      }
    }
    if (auto* inner = std::get_if<ast::Call>(&callee->node); inner != nullptr && inner->callee.text() == "index") {
      const auto* dim = inner->arguments.size() == 1 ? ast::as<ast::Path>(*inner->arguments[0].value) : nullptr;
      if (dim != nullptr && dim->simple() && arguments.size() == 1) {
        return ast::Cast{dim->parts.front(), std::move(arguments[0].value)};
      }
    }
    check_callee(*callee, sink_);
    return ast::Group{};
  }

  std::vector<ast::Item> items(const std::vector<Parser::ItemContext*>& contexts) {
    return each(contexts, [&](auto* one) { return item(one); });
  }

  ast::Item item(Parser::ItemContext* context) {
    ast::Item result;
    result.span = span(context);
    result.rest = context->pick().empty();
    if (result.rest) return result;
    result.pick = pick(context->pick(0));
    if (context->pick().size() > 1) result.as = pick(context->pick(1));
    if (auto* c = context->window()) {
      ast::Window window;
      window.span = span(c);
      if (c->name() != nullptr) window.dim = name(c->name());
      else window.size = number(as<antlr4::tree::TerminalNode>(c->children[0]));
      for (std::size_t at = 1; at + 1 < c->children.size(); at += 2) {
        auto& where = c->children[at]->getText() == "stride" ? window.stride : window.dilate;
        where = number(as<antlr4::tree::TerminalNode>(c->children[at + 1]));
      }
      result.window = std::move(window);
    }
    if (auto* c = context->range()) {
      ast::Range range{expr(c->expr(0)), false, nullptr, {}, span(c)};
      range.open = c->children.size() > 1 && c->children[1]->getText() == "..";
      if (c->expr().size() > 1) range.end = expr(c->expr(1));
      if (c->NUMBER() != nullptr) range.step = number(c->NUMBER());
      result.range = std::move(range);
    }
    check_syntax(result, sink_);
    return result;
  }

  ast::Pick pick(Parser::PickContext* context) {
    ast::Pick result{ast::Pick::Kind::one, names(context->name()), 0, span(context)};
    if (context->children.size() == 1) return result;
    const std::string op = context->children[1]->getText();
    if (context->NUMBER() != nullptr) {
      result.kind = ast::Pick::Kind::shift;
      const ast::Number by = number(context->NUMBER());
      check_whole(by, sink_);
      result.shift = static_cast<std::int64_t>(op == "-" ? -by.value : by.value);
    } else {
      result.kind = op == "*" ? ast::Pick::Kind::product : ast::Pick::Kind::sum;
    }
    return result;
  }

  ast::Type type(Parser::TypeContext* context) {
    ast::Type result{{}, {}, {}, span(context)};
    if (context->children.front()->getText() == "index" && context->children.size() > 1 &&
        context->children[1]->getText() == "(") {
      result.element = word(context->children.front());
      result.index_of = name(context->name());
    } else {
      result.element = name(context->name());
    }
    result.slots = each(context->slot(), [&](auto* one) {
      ast::Slot slot{one->name().empty(), {}, {}, span(one)};
      if (!slot.rest) slot.dim = name(one->name(0));
      if (one->name().size() > 1) slot.value = name(one->name(1));
      return slot;
    });
    return result;
  }
  std::optional<ast::Type> maybe(Parser::TypeContext* context) {
    return context == nullptr ? std::nullopt : std::optional(type(context));
  }

  // ---- statements

  ast::Dims dims(Parser::DimsContext* context) {
    return {each(context->dim(), [&](auto* one) {
      return ast::Dim{name(one->name()), expr(one->expr(0)), one->expr().size() > 1 ? expr(one->expr(1)) : nullptr,
                      span(one)};
    })};
  }

  ast::Attributes attributes(Parser::AttributesContext* context) {
    if (context == nullptr) return {};
    ast::Attributes attributes = each(context->attribute(), [&](auto* one) {
      return ast::Attribute{name(one->name()), one->nothing() ? word_itself(one->nothing()) : expr(one->expr()),
                            span(one)};
    });
    check_syntax(attributes, sink_);
    return attributes;
  }

  ast::Body body(Parser::BodyContext* context) {
    return each(context->statement(), [&](auto* one) { return ast::Statement{statement(one), span(one)}; });
  }

  ast::Statement::Node statement(Parser::StatementContext* any) {
    using Direction = ast::Port::Direction;
    if (auto* c = as<Parser::InputStatementContext>(any))
      return ast::Port{Direction::input, names(c->names()), type(c->type())};
    if (auto* c = as<Parser::OutputStatementContext>(any))
      return ast::Port{Direction::output, names(c->names()), maybe(c->type())};
    if (auto* c = as<Parser::ParameterStatementContext>(any))
      return ast::Parameter{names(c->names()), type(c->type()), expr(c->expr())};
    if (auto* c = as<Parser::StateStatementContext>(any))
      return ast::State{names(c->names()), maybe(c->type()), expr(c->expr())};
    if (auto* c = as<Parser::DimsStatementContext>(any)) return dims(c->dims());
    if (auto* c = as<Parser::RequireStatementContext>(any)) return ast::Require{expr(c->expr())};
    if (auto* c = as<Parser::MetricStatementContext>(any)) return ast::Metric{name(c->name()), expr(c->expr())};
    if (auto* c = as<Parser::RepeatStatementContext>(any)) {
      return ast::Repeat{name(c->name(0)), maybe(c->name(1)), expr(c->expr()), body(c->body())};
    }
    if (auto* c = as<Parser::ManualStatementContext>(any)) return ast::Manual{cuts(c->cut()), body(c->body())};
    if (auto* c = as<Parser::ReturnStatementContext>(any)) return ast::Return{exprs(c->expr())};
    if (auto* c = as<Parser::MinimizeStatementContext>(any)) {
      return ast::Minimize{name(c->name()), globs(c->globs()), expr(c->expr()), groups(c->groups())};
    }
    if (auto* c = as<Parser::GenerateStatementContext>(any))
      return ast::Generate{name(c->name(0)), name(c->name(1)), name(c->name(2))};
    if (auto* c = as<Parser::BindStatementContext>(any))
      return ast::Bind{names(c->names()), maybe(c->type()), expr(c->expr())};
    auto* update = as<Parser::UpdateStatementContext>(any);
    return ast::Update{name(update->name()), expr(update->expr())};
  }

  std::vector<ast::Cut> cuts(const std::vector<Parser::CutContext*>& contexts) {
    return each(contexts, [&](auto* one) {
      ast::Cut cut{{}, name(one->name()), expr(one->expr()), span(one)};
      if (one->names() != nullptr) cut.dims = names(one->names());
      return cut;
    });
  }

  std::vector<ast::ParameterGroup> groups(Parser::GroupsContext* context) {
    if (context == nullptr) return {};
    return each(context->group(), [&](auto* one) {
      return ast::ParameterGroup{globs(one->globs()), attributes(one->attributes()), one->attributes() == nullptr,
                                 span(one)};
    });
  }

  // ---- layouts and budgets

  /// A dim where a layout names it: `ffn`, or `Fold.half` for one of a block's own.
  std::vector<ast::Name> dims(const std::vector<Parser::PathContext*>& paths) const {
    return each(paths, [&](auto* one) { return ast::Name{path(one).text(), span(one)}; });
  }

  ast::Product product(Parser::ProductContext* context) const { return {dims(context->path()), span(context)}; }

  ast::Rules rules(Parser::RulesContext* context) {
    return each(context->rule_(), [&](auto* one) { return ast::Rule{rule(one), span(one)}; });
  }

  ast::Rule::Node rule(Parser::Rule_Context* any) {
    if (auto* c = as<Parser::PlaceRuleContext>(any)) {
      ast::Target target{c->target()->product() == nullptr, {}, span(c->target())};
      if (!target.none) target.axes = product(c->target()->product());
      return ast::Place{each(c->product(), [&](auto* one) { return product(one); }), std::move(target),
                        c->paths() == nullptr ? std::vector<ast::Name>() : dims(c->paths()->path()),
                        attributes(c->attributes())};
    }
    if (auto* c = as<Parser::ScopeRuleContext>(any)) return ast::Scope{word(c->children.front()), rules(c->rules())};
    if (auto* c = as<Parser::PinRuleContext>(any)) return ast::Pin{globs(c->globs()), rules(c->rules())};
    if (auto* c = as<Parser::WithinRuleContext>(any)) return ast::Within{glob(c->glob()), rules(c->rules())};
    if (auto* c = as<Parser::ReplicateRuleContext>(any)) return ast::Replicate{names(c->names())};
    if (as<Parser::AutoRuleContext>(any) != nullptr) return ast::Auto{};
    return ast::Closed{};
  }

  ast::Limit::Node limit(Parser::LimitContext* any) {
    if (auto* c = as<Parser::BoundLimitContext>(any)) {
      const bool over = c->children[1]->getText() == "over";
      const bool at_most = c->children[over ? 3 : 1]->getText() == "<=";
      auto* unit = as<Parser::NameContext>(c->children.back());
      return ast::Bound{name(c->name(0)), maybe(over ? c->name(1) : nullptr),
                        at_most ? ast::CompareOp::less_equal : ast::CompareOp::equal, expr(c->expr()), maybe(unit)};
    }
    if (auto* c = as<Parser::ForbidLimitContext>(any)) {
      ast::Forbid result{name(c->name(0)), {}, maybe(c->name(1))};
      if (c->glob() != nullptr) result.of = glob(c->glob());
      return result;
    }
    auto* exact = as<Parser::CollectivesLimitContext>(any);
    return ast::Collectives{glob(exact->glob()), maybe(exact->name()), attributes(exact->attributes())};
  }

  // ---- declarations

  ast::Decl::Node decl(Parser::DeclContext* any) {
    if (auto* c = as<Parser::ImportDeclContext>(any)) {
      if (c->path() != nullptr) return ast::Import{path(c->path()), span(c->path())};
      return ast::Import{unquoted(c->STRING()), span(c->STRING())};
    }
    if (auto* c = as<Parser::VersionDeclContext>(any)) {
      ast::Version version{number(c->NUMBER())};
      check_version(version.number, sink_);
      return version;
    }
    if (auto* c = as<Parser::DimsDeclContext>(any)) return dims(c->dims());
    if (auto* c = as<Parser::ConstantsDeclContext>(any))
      return ast::Constants{each(c->constant(), [&](auto* one) {
        return ast::Constant{name(one->name()), expr(one->expr())};
      })};
    if (auto* c = as<Parser::RequireDeclContext>(any)) return ast::Require{expr(c->expr())};
    if (auto* c = as<Parser::BlockDeclContext>(any)) {
      std::vector<ast::BlockInput> inputs = each(c->port(), [&](auto* one) {
        return ast::BlockInput{names(one->names()), type(one->type()), span(one)};
      });
      std::vector<ast::Type> results = each(c->results()->type(), [&](auto* one) { return type(one); });
      const bool list = c->results()->children.front()->getText() == "(";
      return ast::Block{name(c->name()),
                        names(c->names()),
                        std::move(inputs),
                        std::move(results),
                        list,
                        body(c->body()),
                        span(c->start, c->results()->stop)};
    }
    if (auto* c = as<Parser::ModelDeclContext>(any)) return ast::Model{name(c->name()), body(c->body())};
    if (auto* c = as<Parser::MeshDeclContext>(any)) {
      return ast::Mesh{name(c->name()), each(c->axis(), [&](auto* one) {
                         return ast::Axis{name(one->name(0)), expr(one->expr()), maybe(one->name(1)), span(one)};
                       })};
    }
    if (auto* c = as<Parser::LayoutDeclContext>(any))
      return ast::Layout{name(c->name(0)), name(c->name(1)), rules(c->rules())};
    if (auto* c = as<Parser::PrecisionDeclContext>(any))
      return ast::Precision{name(c->name()), attributes(c->attributes())};
    auto* budget = as<Parser::BudgetDeclContext>(any);
    return ast::Budget{name(budget->name()), each(budget->limits()->limit(), [&](auto* one) {
                         return ast::Limit{limit(one), span(one)};
                       })};
  }

  FileId file_;
  DiagnosticSink& sink_;
};

}  // namespace

Ast build_ast(FileId file, MeshParser::FileContext* tree, DiagnosticSink& sink) {
  return Builder(file, sink).file(tree);
}

}  // namespace mesh
