"""Which sector a memory belongs to, without an LLM: a linear model on its vector and on cues of its wording.

`model` is what workers use; `train` and what it imports made the weights and say how good they are.
"""
