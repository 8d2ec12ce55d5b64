"""The commands, one file each: options, then what is called. Each imports what it computes with when it is called."""

from twoclocks.commands import (
    bench,
    clocks,
    data,
    demo,
    dissect,
    fit,
    forecast,
    list,
    plan,
    report,
    reproduce,
    run,
    serve,
    sweep,
    twins,
    verify,
    widen,
)

COMMANDS = (
    demo,
    run,
    sweep,
    reproduce,
    widen,
    clocks,
    fit,
    forecast,
    dissect,
    twins,
    report,
    plan,
    serve,
    verify,
    bench,
    list,
    data,
)  # in the order of the help

__all__ = ["COMMANDS"]
