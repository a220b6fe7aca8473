"""A model of one head over a long sequence, for what layouts make of attention."""
SCORES = "dot[head_dim](q, k)"
CAUSAL = f"mask({SCORES}, position[seq] >= position[key])"


def model(masked):
    """With the dims batch, seq, key, embed and head_dim; `masked`: the scores, masked or not."""
    return f"""model Long {{
  input x : real[batch, seq, embed]
  param wq, wk, wv : real[embed, head_dim] = fan_in[embed]
  q = dot[embed](x, wq)
  k = dot[embed](x, wk)[seq as key]
  v = dot[embed](x, wv)[seq as key]
  y = dot[key](softmax[key]({masked}), v)
  loss = mean[batch, seq, head_dim](y ^ 2)
  minimize loss with sgd(lr: 0.1)
}}
"""
