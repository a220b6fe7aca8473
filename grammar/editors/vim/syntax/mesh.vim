" Colours for .mesh files, the specs of Meshwright.
if exists("b:current_syntax")
  finish
endif

" Words of the language stay usable as names: they are keywords only where a construct begins or goes on with them.
let s:begin = '\%(^\|[;{}]\)\s*\zs'
execute 'syntax match meshDeclaration "' . s:begin . '\%(block\|model\|mesh\|layout\|precision\|budget\)\ze\s\+\h" nextgroup=meshName skipwhite'
execute 'syntax match meshStatement "' . s:begin . '\%(import\|language\|dim\|const\|require\|input\|output\|param\|state\|metric\|repeat\|manual\|return\)\ze\s\+\S"'
execute 'syntax match meshStatement "' . s:begin . '\%(minimize\|generate\|tensor\|in\|replicate\|forbid\|collectives\)\ze\s\+[a-zA-Z0-9_*]"'
execute 'syntax match meshStatement "' . s:begin . '\%(params\|grads\|optimizer\|activations\|state\)\ze\s*{"'
execute 'syntax match meshStatement "' . s:begin . '\%(auto\|closed\|frozen\)\ze\s*\%([;}]\|//\|$\)"'
syntax match meshStatement "[[:space:])]\zs\%(on\|over\|with\|until\|along\|from\|unless\|within\|edge\|of\|in\|stride\|dilate\|step\)\ze\s\+[a-zA-Z0-9_*\"(.-]"
syntax match meshName "\h\w*" contained

syntax keyword meshOperator as and or not
syntax keyword meshConstant true false none
syntax keyword meshType real f32 f64 bf16 f16 i32 i64 u8 bool index
syntax keyword meshInitial zeros ones fan_in he_normal normal truncated_normal uniform
syntax match meshFunction "\<\%(abs\|all_gather\|all_reduce\|all_to_all\|argmax\|avg_pool\|broadcast\|collect\|combine\|concat\|conv\|conv_transpose\|coordinate\|cos\|cross_entropy\|cumsum\|dispatch\|dot\|dropout\|dropped\|elu\|erf\|exp\|expm1\|flip\|floor\|gelu\|gelu_tanh\|leaky_relu\|log\|log1p\|log_softmax\|logsumexp\|mask\|max\|max_pool\|mean\|min\|one_hot\|outer\|pad\|permute\|position\|random_normal\|random_uniform\|reduce_scatter\|relu\|roll\|round\|route\|rsqrt\|scatter_add\|scatter_max\|sigmoid\|sigmoid_cross_entropy\|sign\|silu\|sin\|size\|softmax\|softplus\|sort\|sqrt\|stack\|stop_gradient\|sum\|take\|tanh\|top_k\|where\)\ze[\[(]"
syntax match meshNumber "\<\d[0-9_]*\%(\.\d\+\)\?\%([eE][+-]\?\d\+\)\?\>"
syntax match meshSign "->\|<-"
syntax region meshText start=+"+ end=+"+ oneline
syntax match meshComment "//.*$" contains=@Spell

highlight default link meshDeclaration Structure
highlight default link meshStatement Statement
highlight default link meshName Type
highlight default link meshOperator Operator
highlight default link meshSign Operator
highlight default link meshConstant Constant
highlight default link meshType Type
highlight default link meshInitial Constant
highlight default link meshFunction Function
highlight default link meshNumber Number
highlight default link meshText String
highlight default link meshComment Comment

let b:current_syntax = "mesh"
