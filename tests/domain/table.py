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
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from ledger.domain.attempt_commands import (
    Cancel,
    Heartbeat,
    RecordDelivery,
    RecordFailedBeforeDispatch,
    RecordReceipt,
)
from ledger.domain.batch import Outcome
from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.cards import PriceCard, Rate
from ledger.domain.claims import Claim
from ledger.domain.commands import (
    BeginDispatch,
    Command,
    Correct,
    CreateBudget,
    Dispatch,
    GrantBudget,
    Lapse,
    MarkOutcomeUnknown,
    NoCostProof,
    PutEvidencePolicy,
    PutPriceCard,
    Release,
    Reserve,
    Resolve,
    Usage,
    VerifyWrite,
)
from ledger.domain.model import Caller, Classification, Delivery, Role
from ledger.domain.money import parse_amount, parse_price
from ledger.domain.periods import PeriodKind, Rollover, RolloverKind, Schedule
from ledger.domain.policies import EvidencePolicy, Rule
from ledger.domain.quotes import QuoteKind, QuoteSpec
from ledger.domain.thresholds import Basis, Thresholds
from tests.domain.checks import CHECKS, SHORT
from tests.domain.world import World

ROLES = {"gw": Role.GATEWAY, "fin": Role.FINANCE, "adm": Role.ADMIN, "sys": Role.SYSTEM}
SPANS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}
STANDINGS = {"~": Classification.CORROBORATING, "?": Classification.ESTIMATE}
Options = dict[str, str]


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
            make = COMMANDS.get(words[0], partial(_correct, world))
            batch.append((line, make(caller, key, words[1:], options), expected))
            assert not options, f"not understood: {options} in {line}"
        elif words[0] == "after":
            world.now += _span(words[1])
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


def _span(text: str) -> timedelta:
    return int(text[:-1]) * SPANS[text[-1]]


def _dispatch(options: Options) -> Dispatch | None:
    nonce = options.pop("nonce", None)
    if nonce is None:
        return None
    return Dispatch(nonce, _span(options.pop("lease", "15m")), options.pop("executor", "host-1"))


def _quantities(options: Options) -> tuple[tuple[str, int], ...]:
    return tuple((SHORT[name], int(options.pop(name))) for name in tuple(options) if name in SHORT)


def reserve(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    operation, budgets, *amount = words
    tolerance = parse_amount(options.pop("tolerance", "0"))
    if amount:
        spec = QuoteSpec(
            QuoteKind.FIXED,
            tolerance,
            amount=parse_amount(amount[0]),
            currency=options.pop("currency", "USD"),
            provider=options.pop("provider", "acme"),
            model=options.pop("model", "refunds"),
            reason=options.pop("reason", "a price agreed on"),
        )
    else:
        card, _, version = options.pop("card").partition("/")
        spec = QuoteSpec(
            QuoteKind.METERED,
            tolerance,
            card_id=card,
            card_version=int(version or 0),
            model=options.pop("model", ""),
            service_tier=options.pop("tier", "standard"),
            ceilings=_quantities(options),
        )
    labels = tuple(tuple(pair.split(":")) for pair in options.pop("labels", "").split(",") if pair)
    return Reserve(
        caller, key, operation, tuple(budgets.split(",")), spec, _span(options.pop("ttl", "15m")),
        labels=labels,  # type: ignore[arg-type]  # each is name:value
        exclusive_key=options.pop("exclusive", None),
        request_group=options.pop("group", None),
        dispatch=_dispatch(options),
    )  # fmt: skip


def dispatch(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    permission = _dispatch(options)
    assert permission is not None, "a dispatch has a nonce"
    return BeginDispatch(caller, key, words[0], permission)


def _usage(words: list[str], options: Options) -> Usage:
    """`usage OP in=… out=…` for tokens, `charge OP 5` for the amount of a FIXED quote."""
    return Usage(
        source=options.pop("source", "PROVIDER_RESPONSE"),
        provider=options.pop("provider", "acme"),
        model=options.pop("model", ""),
        service_tier=options.pop("tier", ""),
        adapter=options.pop("adapter", "sdk"),
        adapter_revision=options.pop("revision", "7"),
        document=options.pop("document", ""),
        flavor=options.pop("flavor", ""),
        defects=tuple(d for d in options.pop("defects", "").split(",") if d),
        provider_receipt=options.pop("receipt", None),
        read_model=options.pop("read_model", ""),
        read_tier=options.pop("read_tier", ""),
        response_id=options.pop("response", ""),
        observed_at=_instant(options.pop("observed", "")),
        charged=parse_amount(words[0]) if words else None,
        charged_currency=options.pop("currency", "USD") if words else "",
        buckets=_quantities(options),
    )


def _proof(words: list[str], options: Options) -> NoCostProof:
    """`proof OP NEVER_SENT cause=DNS_FAILURE`"""
    return NoCostProof(
        words[0],
        "sdk",
        "7",
        cause=options.pop("cause", ""),
        provider_status=int(options.pop("status", 0)),
        provider_request_id=options.pop("request", ""),
        nonce=options.pop("nonce", ""),
    )


EVIDENCE: Mapping[str, Callable[[list[str], Options], Usage | NoCostProof]] = {
    "usage": _usage,
    "charge": _usage,
    "proof": _proof,
}


def _resolve(what: str) -> Callable[[Caller, str, list[str], Options], Command]:
    def resolve(caller: Caller, key: str, words: list[str], options: Options) -> Command:
        attempt, accept = int(options.pop("attempt", 0)), options.pop("accept", "")
        return Resolve(caller, key, words[0], EVIDENCE[what](words[1:], options), attempt, accept)

    return resolve


def _correct(world: World, caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`correct OP charge 5`, `correct OP proof NEVER_SENT …`: of what is in force, or of revision `of=1`, or of none (`of=0`)."""
    operation, what, *rest = words
    digests = [
        b"-" * 32,
        *(r.digest for r in world.resolutions if (r.tenant, r.operation_id) == (caller.tenant, operation)),
    ]
    of = digests[int(options.pop("of", -1))]
    reason, attempt, accept = options.pop("reason", "a bill"), int(options.pop("attempt", 0)), options.pop("accept", "")
    return Correct(caller, key, operation, of, EVIDENCE[what](rest, options), reason, attempt, accept)


def heartbeat(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`heartbeat op1 nonce=n1 lease=15m`"""
    return Heartbeat(caller, key, words[0], options.pop("nonce"), _span(options.pop("lease", "15m")))


def failed(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`failed op1 nonce=n1`: nothing was sent"""
    attempt = int(options.pop("attempt", 0))
    cause = options.pop("cause", "DNS_FAILURE")
    return RecordFailedBeforeDispatch(caller, key, words[0], options.pop("nonce"), cause, "sdk", "7", attempt)


def receipt(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`receipt op1 r1`"""
    operation, provider_receipt = words
    attempt = int(options.pop("attempt", 0))
    return RecordReceipt(caller, key, operation, options.pop("provider", "acme"), provider_receipt, attempt, "sdk", "7")


def delivery(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`delivery op1 PARTIAL`"""
    return RecordDelivery(caller, key, words[0], Delivery(words[1]), int(options.pop("attempt", 0)), "sdk", "7")


def claim(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`claim op1 state=SETTLED amount=5 settled=4 budgets=org,team digest=ab receipt=r1 operation=op1`"""
    budgets = options.pop("budgets", None)
    believed = Claim(
        operation_id=options.pop("operation", None),
        state=options.pop("state", None),
        amount=_believed(options.pop("amount", None)),
        settled=_believed(options.pop("settled", None)),
        budget_ids=None if budgets is None else frozenset(budgets.split(",")),
        digest=bytes.fromhex(options.pop("digest", "")) or None,
        provider_receipt=options.pop("receipt", None),
    )
    return VerifyWrite(caller, key, words[0], believed)


def _believed(amount: str | None) -> tuple[Decimal, str] | None:
    return None if amount is None else (Decimal(amount), "USD")


def budget(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    budget_id, currency, options["limit"] = words
    options.setdefault("name", budget_id)
    return CreateBudget(caller, key, budget_id, options.pop("under", None), currency, **_settings(options))


def update(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    changes = _settings(options)
    return UpdateBudget(caller, key, words[0], tuple(sorted(changes)), **changes)


_SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "max_hold": ("max_hold", parse_amount),
    "max_open": ("max_open_holds", int),
    "limit": ("limit", parse_amount),
    "credit": ("credit_line", parse_amount),
    "name": ("display_name", str),
    "rollover": ("rollover", lambda value: _rollover(*value.split(":"))),
    "thresholds": ("thresholds", lambda value: _thresholds(*value.split(":"))),
}


_NEVER_ABSENT = {"rollover", "thresholds"}


def _settings(options: Options) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for option, (name, kind) in _SETTINGS.items():
        if option in options:
            value = options.pop(option)
            changes[name] = None if value in ("none", "unlimited") and name not in _NEVER_ABSENT else kind(value)
    for kind_of_period in PeriodKind:
        if kind_of_period.lower() in options:
            changes["schedule"] = _schedule(kind_of_period, options.pop(kind_of_period.lower()), options)
    return changes


def _rollover(kind: str, cap: str = "") -> Rollover:
    return Rollover(RolloverKind(kind.upper()), parse_amount(cap) if cap else None)


def _thresholds(percents: str, basis: str = "used") -> Thresholds:
    """50,80 of what is used, 50,80:spent, or none"""
    return Thresholds(() if percents == "none" else tuple(map(int, percents.split(","))), Basis(basis.upper()))


def _schedule(kind: PeriodKind, value: str, options: Options) -> Schedule:
    anchor = options.pop("anchor", None)
    at = None if anchor is None else datetime.fromisoformat(anchor).astimezone(UTC)
    if kind is PeriodKind.FIXED:
        return Schedule(kind, anchor=at, length=_span(value))
    return Schedule(kind, "" if kind is PeriodKind.NONE else value, at)


def move(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    return MoveBudget(caller, key, words[0], options.pop("under", None))


def grant(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    budget_id, amount = words
    return GrantBudget(
        caller, key, budget_id, Decimal(amount), options.pop("currency", "USD"), options.pop("ref", "invoice")
    )


def card(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`card gpt USD in=3 in>200000=6 out@priority=30 requests=5/1000`: price per million, tier, threshold, other units."""
    card_id, currency = words
    most_in, most_out = options.pop("max_in", None), options.pop("max_out", None)
    until, since = options.pop("until", ""), options.pop("from", "")
    provider, model = options.pop("provider", "acme"), options.pop("model", card_id)
    aliases = tuple(alias for alias in options.pop("aliases", "").split(",") if alias)
    rates = []
    for name in tuple(options):
        bucket, _, above = name.partition(">")
        bucket, _, tier = bucket.partition("@")
        price, _, per = options.pop(name).partition("/")
        rates.append(
            Rate(SHORT[bucket], tier or "standard", int(above or 0), parse_price(price), int(per or 1_000_000))
        )
    return PutPriceCard(
        caller,
        key,
        PriceCard(
            caller.tenant, card_id, 0, provider, model, aliases, currency, tuple(rates),
            None if most_in is None else int(most_in), None if most_out is None else int(most_out),
            _instant(since), _instant(until),
        ),
    )  # fmt: skip


def policy(caller: Caller, key: str, words: list[str], options: Options) -> Command:
    """`policy acme gw:WEBHOOK fin:STATEMENT~ gw:PROVIDER_RECORD? gw:REJECTED_BEFORE_EXECUTION/429/529`: role and evidence, `~` for
    what corroborates, `?` for an estimate."""
    provider, *said = words
    rules = []
    for text in said:
        role, _, named = text.partition(":")
        evidence, *statuses = named.split("/")
        standing = STANDINGS.get(evidence[-1], Classification.AUTHORITATIVE)
        rules.append(Rule(evidence.rstrip("~?"), ROLES[role], standing, tuple(map(int, statuses))))
    return PutEvidencePolicy(caller, key, EvidencePolicy(caller.tenant, provider, 0, tuple(rules)))


def _instant(text: str) -> datetime | None:
    """A time of the day on which the tables play, such as 10:20."""
    return datetime.fromisoformat(f"2025-03-01T{text}:00+00:00") if text else None


def _simple(kind: Callable[..., Command], *more: Any) -> Callable[..., Command]:
    return lambda caller, key, words, _: kind(caller, key, words[0], *more)


COMMANDS: Mapping[str, Callable[[Caller, str, list[str], Options], Command]] = {
    "reserve": reserve,
    "dispatch": dispatch,
    "unknown": _simple(MarkOutcomeUnknown, "timeout"),
    "release": _simple(Release),
    "lapse": _simple(Lapse),
    "heartbeat": heartbeat,
    "failed": failed,
    "cancel": _simple(Cancel, "the user left"),
    "receipt": receipt,
    "delivery": delivery,
    "usage": _resolve("usage"),
    "charge": _resolve("charge"),
    "proof": _resolve("proof"),
    "claim": claim,
    "budget": budget,
    "update": update,
    "close": _simple(CloseBudget),
    "move": move,
    "grant": grant,
    "card": card,
    "policy": policy,
}
