# SPDX-License-Identifier: Apache-2.0
"""Draw the machine at a moment: the cells of a grid of multiprocessors, and of a matrix by its tiles.

A cell is a class and up to two numbers from 0 to 1, which say how far its program has come, or both of its programs.
``machine.html`` makes markup of cells, and ``machine.js`` changes them.
"""

from collections.abc import Iterable
from typing import Protocol

from figures.svg import pid

Cell = tuple[str, *tuple[float, ...]]
COLUMNS = 12  # of multiprocessors: 132 are 12 by 11
OFF = ("off",)  # a multiprocessor without work


class Program(Protocol):
    """A program of a launch, with times in µs."""

    sm: int
    begin: float
    end: float
    turn: int  # how many had its place before


def cell(program: Program, time: float) -> Cell:
    """Return the cell of a program: it waits, runs, or has ended."""
    if time < program.begin:
        return ("wait",)
    color = pid(program.turn)
    if time >= program.end:
        return (f"{color} done",)
    return f"{color} on", round(20 * (time - program.begin) / (program.end - program.begin)) / 20


def multiprocessors(programs: Iterable[Program], sms: int, time: float) -> list[Cell]:
    """Return the cell of each multiprocessor: that of the program on it, or of two side by side."""
    cells: list[Cell] = [OFF] * sms
    for program in programs:
        if program.begin <= time < program.end:
            name, at = cell(program, time)
            before = cells[program.sm]
            cells[program.sm] = (name, at) if before == OFF else (f"{name} two", before[1], at)
    return cells
