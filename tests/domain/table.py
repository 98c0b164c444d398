"""The table language of the tests: one line is one command with its expected outcome, or one check of the books.

    budget org USD 10 under=root -> ok          (`unlimited` is no limit; `max_hold=5 max_open=3` are caps)
    budget org USD 10 day=Asia/Shanghai rollover=cap:5 credit=3 -> ok      (week=, month= with anchor=; fixed=30s)
    update org limit=unlimited max_hold=6 max_open=none -> ok              (what is named is changed; none=yes: no periods)
    move team under=org -> ok                   (without `under` to the root)
    close org -> ok
    reserve op1 org,team 6 nonce=n1 -> ok send  (a FIXED quote of 6; with a nonce the hold is born DISPATCHING)
    reserve op2 org card=gpt in=2000 out=500 -> ok
    | release op2 -> HOLD_STATE                 (`|` puts a line into the batch of the line above)
    fin: charge op1 5 receipt=r1 -> ok          (who asks; `gw` if nobody is named)
    fin: correct op1 charge 6 -> ok             (what is in force; `of=1` names revision 1)
    balance org available=5 held=0 spent=5

An outcome is the set of its words: the refusal's reason, or `ok` (something was done) or `unchanged`; and `replayed`, `matched`
(found by operation), `send` (may send), `continue` (a heartbeat's sender may), `incident`, `superseded` (by what is in force now),
`parked` (there is no hold yet); why the permission to send was denied and what a cancel stopped, by their names. `any` expects
nothing. `name=value` after them are the refusal's facts; `says="…"` is a part of its message. What is said after `#` is for the
reader.
"""

import re
import shlex
from collections.abc import Mapping
from functools import partial

from ledger.domain.batch import Outcome
from ledger.domain.commands import Command
from ledger.domain.model import Caller, Role
from tests.domain.checks import CHECKS
from tests.domain.lines import COMMANDS, ROLES, Options, correct, span
from tests.domain.world import World


def run(table: str, world: World | None = None) -> World:
    """Plays a table. Returns the world as it is at the end."""
    world = world or World()
    batch: list[tuple[str, Command, str]] = []

    def flush() -> None:
        outcomes = world.step(*(command for _, command, _ in batch)) if batch else []
        for (line, _, expected), outcome in zip(batch, outcomes, strict=True):
            _expect(line, expected, outcome)
        batch.clear()

    for number, raw in enumerate(table.splitlines()):
        line = re.sub(r"(^|\s)#( .*|$)", "", raw).strip()
        if not line:
            continue
        text, arrow, expected = line.partition("->")
        if not text.startswith("|"):
            flush()
        words, options = _split(text.lstrip("| "))
        caller = Caller("t1", "gw", Role.GATEWAY)
        if words[0].endswith(":"):
            tenant, _, actor = words.pop(0)[:-1].rpartition("/")
            caller = Caller(tenant or "t1", actor, ROLES[actor.rstrip("0123456789")])
        if words[0] in COMMANDS or words[0] == "correct":
            assert arrow, f"no expectation: {line}"
            key = options.pop("key", f"line {number}")
            make = COMMANDS.get(words[0], partial(correct, world))
            batch.append((line, make(caller, key, words[1:], options), expected))
            assert not options, f"not understood: {options} in {line}"
        elif words[0] == "after":
            world.now += span(words[1])
        else:
            CHECKS[words[0]](world, line, words[1:], options)
    flush()
    return world


def _split(text: str) -> tuple[list[str], Options]:
    tokens = shlex.split(text)
    options = dict(token.rsplit("=", 1) for token in tokens if "=" in token)
    return [token for token in tokens if "=" not in token], options


def _expect(line: str, expected: str, outcome: Outcome) -> None:
    words, facts = _split(expected)
    if words == ["any"]:
        return
    refusal = outcome.refusal
    said = {refusal.reason.value} if refusal is not None else {"ok" if outcome.applied else "unchanged"}
    flags = {
        "replayed": outcome.replayed,
        "matched": outcome.matched_by_operation,
        "send": outcome.may_send,
        "incident": outcome.incident_id is not None,
        "parked": outcome.parked,
        "continue": outcome.may_continue,
        "superseded": outcome.superseded_by is not None,
    }
    said |= {name for name, is_set in flags.items() if is_set}
    said |= {named.value for named in (outcome.denial, outcome.stopped) if named is not None}
    message = "" if refusal is None else refusal.message
    assert said == set(words), f"{line}\n  came out as {sorted(said)} {message}"
    part = facts.pop("says", "")
    assert part in message, f"{line}\n  says {message!r}"
    given: Mapping[str, str] = {} if refusal is None else refusal.metadata
    assert facts == {name: given.get(name) for name in facts}, f"{line}\n  gives {given}"
