# SPDX-License-Identifier: Apache-2.0
"""Each mistake is refused with its own message, and what is no mistake is taken."""

from recorder import printed, recording
from recorder.project import Snippet

MESSAGES = {
    "blocks of two sizes": "incompatible dimensions at index 0: 16 and 32",
    "tl.dot of two dtypes": "Both operands must be same dtype. Got fp32 and fp16",
    "tl.dot of sides that do not match": "must have equal reduction dimensions",
    "a number for a pointer": "Unsupported ptr type",
    "a block at one address": "Value argument cannot be block type",
    "a mask for one address": "Mask argument cannot be block type",
    "return in a loop": "Cannot have `return` statements inside `while` or `for`",
    "a block in brackets": "Did you forget to add @triton.jit",
    "tl.gather of a lane that is not there": "yes",
    "a helper without @triton.jit": "Unsupported function referenced: <function halved>",
    "n.to(tl.float32), n = 7": "yes",
    "n.to(tl.float32), n = 1": "'int' object has no attribute 'to'",
}


def test_each_is_refused_with_its_message():
    (said,) = printed.verdicts(recording.load(Snippet("tools/refused"), "cpu").output).values()
    assert said.keys() == MESSAGES.keys()
    assert not {name: text["compiles"] for name, text in said.items() if MESSAGES[name] not in text["compiles"]}
