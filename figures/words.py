# SPDX-License-Identifier: Apache-2.0
"""Write numbers and lists of numbers as figures show them."""


def plural(count: int, word: str) -> str:
    """
    >>> plural(1, "program"), plural(0, "program")
    ('1 program', '0 programs')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


def runs(values) -> str:
    """
    >>> runs([7, 1, 2, 3, 9, 10])
    '1–3, 7, 9, 10'
    """
    values, spans = sorted(set(values)), []
    for value in values:
        if spans and spans[-1][1] == value - 1:
            spans[-1][1] = value
        else:
            spans.append([value, value])
    parts = [[a] if a == b else [a, b] if b == a + 1 else [f"{a}–{b}"] for a, b in spans]
    return ", ".join(str(part) for run in parts for part in run)


def numbered(word: str, values) -> str:
    """
    >>> numbered("lane", [2, 3, 4]), numbered("warp", [0])
    ('lanes 2–4', 'warp 0')
    """
    return f"{word}{'' if len(values) == 1 else 's'} {runs(values)}"
