"""Words of English that name no topic: those of grammar, of asking a memory, and of tasks. Each use adds its own."""

from typing import Final

_QUESTION: Final = (
    "are can could did do does give has have how is should was were what when where which who whom why will would"
)
_GRAMMAR: Final = (
    "a about all am an and any been for from get had i in it its like me much my of on our please so some that the "
    "their them there they this to us we with you your"
)
_ASKING: Final = (
    "anything everything happened know list memories memory recall recap remember said say show something summarise "
    "summarize summary talk talked tell thing things told"
)
_TASKS: Final = (
    "add apply change convert create debug describe draft explain extract fix implement make prepare refactor remove "
    "reply review rewrite suggest translate turn update use write"
)
QUESTION: Final = frozenset(_QUESTION.split())  # a question begins with one of these, or has it
GRAMMAR: Final = QUESTION.union(_GRAMMAR.split())
ASKING: Final = frozenset(_ASKING.split())  # what somebody asks a memory for, or to do
TASKS: Final = frozenset(_TASKS.split())  # what somebody wants done, which may ask nothing of a memory
